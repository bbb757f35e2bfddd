"""Stances: how the generic expert answers where contacts state their answers.

Some tasks ask every node for one of the legal actions and show the answers of contacts, with an
order that may break ties. These rules know no task's vocabulary: the shape of the view says nearly
everything. A text under one key of the observation and of the ports that names a legal action is a
stance; an integer under one key of the observation and of ports or claims is a rank in an order.
Only the goal says whether all nodes should answer alike, or neighbours should differ, or one should
stand out; it is read by common English words for sameness, for all, and for exceptions.
Invariant: every function reads the goal and the facts of one view, never names or row positions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from waggle.core.order import numeric_key
from waggle.core.schema import BROADCAST, Contract, Trace, View, plain_actions, takes_channel
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
"""Words for sameness, for all, and for exceptions to either."""


class Stances(NamedTuple):
    """What a view shows of stances and order."""

    key: str
    """The key of stances."""
    order: str
    """The key of ranks in the order."""
    own: int
    """The node's own rank; 0 goes first."""


def find(view: View) -> Stances | None:
    """Return the keys of stances and order, or None where the task shows neither."""
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
    """Return the action to stand for, giving way to contacts that go first.

    With more than two actions a node keeps its own until a contact before it has the same, then
    takes the next one of the list; with more actions than contacts this comes to rest. Of two
    actions, a node takes the first where a contact before it has the second, else the second. Where
    claims carry stances, the order is that of the whole swarm, and only the node that goes before
    all others takes the first action.
    """
    actions = plain_actions(view.contract)
    if len(actions) > 2:
        return _apart(view, stances, actions)
    if len(actions) < 2:
        return view.proposal.action
    first, second = actions
    if any(stances.key in row.facts for row in view.private.claims):
        return first if stances.own == 0 else second
    return first if second in _before(view, stances) else second


def common_answer(contract: Contract) -> str | None:
    """Return the answer of every node where the goal asks for agreement, else None.

    It is the first action of the contract: all nodes share the contract, so no message is needed.
    """
    if contract.response is not None or not contract.broadcast:
        return None
    actions = plain_actions(contract)
    points = any(map(takes_channel, contract.actions))
    return actions[0] if len(actions) > 1 and not points and alike(contract.goal) else None


@lru_cache(maxsize=4096)
def alike(goal: str) -> bool:
    """Whether one sentence of a goal asks for the same of all, without an exception."""
    sentences = (set(re.findall("[a-z]+", part)) for part in re.split("[.;:!?]", goal.lower()))
    return any(words & _SAME and words & _ALL and not words & _EXCEPT for words in sentences)


def deposit(view: View, stances: Stances) -> Trace | None:
    """Return a deposit of the claim that goes before all others, where claims carry stances.

    Its holder writes it fresh; other nodes relay the first of its traces in canonical order. A node
    without such a trace deposits its own claim.
    """
    rows = view.private.claims
    carried = any(stances.key in row.facts for row in rows)
    if not carried or not view.contract.deposits:
        return None
    first = {row.claim for row in rows if row.facts.get(stances.order) == 0}
    own = moves.best_evidence(view)
    held = own is not None and own.claim in first
    # Claims that share a rank are tied, so none of them is the first.
    heard = [] if held or len(first) > 1 else [t for t in moves.relayable(view) if t.claim in first]
    if heard:
        best = min(heard, key=lambda trace: (numeric_key(trace), trace.direction or ""))
        return moves.relay(best, BROADCAST)
    return None if own is None else moves.fresh(own, BROADCAST)


def _apart(view: View, stances: Stances, actions: list[str]) -> str:
    """Keep the own action unless a contact before this node has it; then take the next one."""
    shown = view.private.observation[stances.key]
    current = shown if isinstance(shown, str) and shown in actions else view.proposal.action
    if current not in actions or current not in _before(view, stances):
        return current
    return actions[(actions.index(current) + 1) % len(actions)]


def _before(view: View, stances: Stances) -> set[Any]:
    """Return the stances of contacts that go before this node."""
    found: set[Any] = set()
    for port in view.private.channels:
        rank = port.facts.get(stances.order)
        if isinstance(rank, int) and rank < stances.own:
            found.add(port.facts.get(stances.key))
    return found


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
