"""Stances: how an expert without rules of its own answers where contacts state their answers.

Some tasks ask every node for one of the legal actions and let contacts tell theirs, with an order
that may break ties. Nothing here knows a task's words: the shape of the view says nearly all. A
text under one key of the observation and of the ports that names a legal action is a stance; a
whole number under one key of the observation and of ports or claims is a place in an order. One
thing only the goal can say: whether all should answer alike, or whether neighbours should differ or
one stand out. It is read by common English words for sameness, for all, and for exceptions.
Invariant: a function of one view that reads goal and facts, never names or places of rows.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from waggle.core.order import numeric_key
from waggle.core.schema import BROADCAST, CHANNEL_ARGUMENT, WAIT, Contract, Trace, View
from waggle.laws import moves

_SAME = frozenset(
    ("same", "alike", "identical", "equal", "equals", "agree", "agrees", "agreed", "agreement",
     "unanimous", "common", "share", "shared", "match", "matches", "coincide", "coincides",
     "unison", "uniform")
)  # fmt: skip
_ALL = frozenset(
    ("all", "everyone", "everybody", "every", "each", "whole", "entire", "everywhere")
)  # fmt: skip
_EXCEPT = frozenset(
    ("no", "not", "none", "never", "nobody", "nothing", "nowhere", "neither", "nor", "without",
     "different", "differ", "differs", "differing", "distinct", "unlike", "avoid", "avoids",
     "another", "only", "but", "except", "exactly", "alone", "unless", "rather", "wrong", "apart",
     "forbidden")
)  # fmt: skip
"""Words that say sameness, that say all, and that take either back."""


class Stances(NamedTuple):
    """What a view shows of stances and order."""

    key: str
    """The key that stances stand under."""
    order: str
    """The key that places in the order stand under."""
    own: int
    """The node's own place; 0 goes first."""


def find(view: View) -> Stances | None:
    """Return the keys of stances and order, or None where the task shows no such things."""
    if view.contract.response is not None or not view.contract.broadcast:
        return None
    seen = view.private.observation
    stance = next((key for key in sorted(seen) if _is_stance(view, key)), None)
    order = next((key for key in sorted(seen) if _is_order(view, key)), None)
    if stance is None or order is None:
        return None
    own = seen[order]
    return Stances(stance, order, own) if isinstance(own, int) else None


def answer(view: View, stances: Stances) -> str:
    """Return the action to stand for: beside contacts that go first, give way.

    Among many actions a node keeps its own until a contact that goes first has the same, then takes
    the next one of the list: with more actions than contacts it comes to rest. Of two, the second
    is for whoever finds it free: a node takes the first when a contact before it has the second.
    Where claims carry stances, all of the swarm counts, and the first action is for the node that
    goes before all others.
    """
    actions = _plain(view.contract)
    if len(actions) > 2:
        return _apart(view, stances, actions)
    if len(actions) < 2:
        return view.proposal.action
    first, second = actions
    if any(stances.key in row.facts for row in view.private.claims):
        return first if stances.own == 0 else second
    return first if second in _before(view, stances) else second


def common_answer(contract: Contract) -> str | None:
    """Return the answer of all where the goal is that all answer alike, else None.

    It is the action that the contract lists first: all nodes share the contract, so they agree on
    it without a word.
    """
    if contract.response is not None or not contract.broadcast:
        return None
    actions = _plain(contract)
    points = any(action.endswith(CHANNEL_ARGUMENT) for action in contract.actions)
    return actions[0] if len(actions) > 1 and not points and alike(contract.goal) else None


@lru_cache(maxsize=4096)
def alike(goal: str) -> bool:
    """Whether one sentence of a goal asks for the same of all, and takes nothing of it back."""
    sentences = (set(re.findall("[a-z]+", part)) for part in re.split("[.;:!?]", goal.lower()))
    return any(words & _SAME and words & _ALL and not words & _EXCEPT for words in sentences)


def word(view: View, stances: Stances) -> Trace | None:
    """Return word of the claim that goes before all others, where claims carry stances.

    It is told afresh by its holder and passed on by others, from the first of its traces in
    canonical order. Who has none to pass on tells the own claim.
    """
    rows = view.private.claims
    carried = any(stances.key in row.facts for row in rows)
    if not carried or not view.contract.deposits:
        return None
    first = {row.claim for row in rows if row.facts.get(stances.order) == 0}
    own = moves.best_evidence(view)
    held = own is not None and own.claim in first
    # Claims that share a place are not told apart by it, so none of them is the first.
    told = [] if held or len(first) > 1 else [t for t in moves.relayable(view) if t.claim in first]
    if told:
        best = min(told, key=lambda trace: (numeric_key(trace), trace.direction or ""))
        return moves.relay(best, BROADCAST)
    return None if own is None else moves.fresh(own, BROADCAST)


def _apart(view: View, stances: Stances, actions: list[str]) -> str:
    """Keep the own action unless a contact before has it; then the next one of the list."""
    shown = view.private.observation[stances.key]
    current = shown if isinstance(shown, str) and shown in actions else view.proposal.action
    if current not in actions or current not in _before(view, stances):
        return current
    return actions[(actions.index(current) + 1) % len(actions)]


def _before(view: View, stances: Stances) -> set[Any]:
    """Return the stances of contacts that go before this node."""
    found: set[Any] = set()
    for port in view.private.channels:
        place = port.facts.get(stances.order)
        if isinstance(place, int) and place < stances.own:
            found.add(port.facts.get(stances.key))
    return found


def _plain(contract: Contract) -> list[str]:
    """Return the actions that a stance may name, in the contract's order."""
    return [a for a in contract.actions if a != WAIT and not a.endswith(CHANNEL_ARGUMENT)]


def _is_stance(view: View, key: str) -> bool:
    own = view.private.observation[key]
    if not isinstance(own, str):
        return False
    actions = view.contract.actions
    return any(port.facts.get(key) in actions for port in view.private.channels)


def _is_order(view: View, key: str) -> bool:
    own = view.private.observation[key]
    if isinstance(own, bool) or not isinstance(own, int):
        return False
    tables = [port.facts for port in view.private.channels]
    tables += [row.facts for row in view.private.claims]
    return any(isinstance(facts.get(key), int) for facts in tables)
