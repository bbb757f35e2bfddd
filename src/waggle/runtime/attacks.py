"""Attacks by Byzantine nodes, built from a node's own view and bounded by admission.

    waggle run silo/III-26 -n 16 --perturb.byzantine 0.1 --perturb.attack flipflop

An attack modifies the decision of an honest node on the same view; `project` then deletes what is
not admissible, and transport treats its writes like any others. So an attacker can withhold,
mislead and repeat, but it cannot forge evidence, amplify or impersonate.
Invariant: an attack reads the view, the round and draws derived from keys, so that relabelling the
swarm relabels it and a replay repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias, get_args

from msgspec.structs import replace

from waggle.core.admit import project
from waggle.core.options import channels, silent_actions
from waggle.core.relations import committable, relay_ttl, rows, strongest
from waggle.core.schema import (
    BROADCAST,
    MAX_BIN,
    MAX_TTL,
    WAIT,
    Commitment,
    Decision,
    Trace,
    View,
)
from waggle.runtime.state import ShownView

Attack: TypeAlias = Literal[
    "silent", "wait", "lie", "flipflop", "stale", "spam", "fabricate", "challenge", "collude"
]
ATTACKS: tuple[Attack, ...] = get_args(Attack)


class AttackView(NamedTuple):
    """The input of an attack at one update."""

    view: View
    honest: Decision
    """The law's decision on this view."""
    entropy: int
    round: int
    draw: Callable[[str], int]
    """Returns the draw of a claim of the view, the same for all attackers of an episode."""


def corrupt(
    attack: Attack, shown: ShownView, honest: Decision, round: int, draw: Callable[[str], int]
) -> Decision:
    """Return the admissible decision of a Byzantine node in place of an honest one.

    Args:
        attack: the attack of this episode.
        shown: the node's view.
        honest: the law's decision on it.
        round: the current round.
        draw: returns the draw of a world claim, the same for all nodes.
    """
    plot = AttackView(
        shown.view, honest, shown.entropy, round, lambda claim: draw(shown.claims[claim])
    )
    return project(shown.view, _TRIES[attack](plot))


def _silent(plot: AttackView) -> Decision:
    """Act as the law decided; write and commit nothing."""
    return replace(plot.honest, deposits=(), commit=None)


def _wait(plot: AttackView) -> Decision:
    """Do nothing at all."""
    return Decision(WAIT, None, (), None)


def _lie(plot: AttackView) -> Decision:
    """Take another action, and relay claims other than the proposed one, without conflict."""
    view = plot.view
    others = [a for a in silent_actions(view) if a != plot.honest.task_action]
    action = others[plot.entropy % len(others)] if others else plot.honest.task_action
    heard = [t for t in view.traces if t.claim != view.proposal.claim]
    heard.sort(key=lambda t: -t.support)
    writes = (replace(strongest(t, c), conflict=0) for t in heard for c in _channels(plot))
    response = None if others else plot.honest.response
    return Decision(action, response, tuple(writes), None)


def _flipflop(plot: AttackView) -> Decision:
    """Be honest in even rounds and lie in odd ones."""
    return plot.honest if plot.round % 2 == 0 else _lie(plot)


def _stale(plot: AttackView) -> Decision:
    """Relay the oldest trace instead of anything newer, and keep the held commitment."""
    aged = sorted((t for t in plot.view.traces if relay_ttl(t)), key=lambda t: t.ttl)
    writes = tuple(strongest(t, c) for t in aged[:1] for c in _channels(plot))
    return replace(plot.honest, deposits=writes, commit=None)


def _spam(plot: AttackView) -> Decision:
    """Write every backed claim on every channel, as strongly as possible."""
    writes = (strongest(row, c) for row in rows(plot.view) for c in _channels(plot))
    return replace(plot.honest, deposits=tuple(writes))


def _fabricate(plot: AttackView) -> Decision:
    """Attempt full-strength writes on every known claim, ahead of the honest ones."""
    view = plot.view
    claims = [row.claim for row in (*view.private.claims, *rows(view))]
    made_up = (Trace(c, z, MAX_BIN, MAX_BIN, 0, MAX_TTL) for z in claims for c in _channels(plot))
    return replace(plot.honest, deposits=(*made_up, *plot.honest.deposits))


def _challenge(plot: AttackView) -> Decision:
    """Attempt full-conflict writes on every backed claim, ahead of the honest ones."""
    against = (
        replace(strongest(row, c), support=0, conflict=MAX_BIN)
        for row in rows(plot.view)
        for c in _channels(plot)
    )
    return replace(plot.honest, deposits=(*against, *plot.honest.deposits))


def _collude(plot: AttackView) -> Decision:
    """Support and commit to one claim, chosen by a draw that all attackers share."""
    backed = [row for row in rows(plot.view) if row.support and not row.conflict]
    if not backed:
        return _silent(plot)
    claim = min((row.claim for row in backed), key=plot.draw)
    writes = (strongest(row, c) for row in backed if row.claim == claim for c in _channels(plot))
    most = committable(plot.view).get(claim)
    commit = None if most is None else Commitment(claim, most)
    return replace(plot.honest, deposits=tuple(writes), commit=commit)


_TRIES: dict[Attack, Callable[[AttackView], Decision]] = {
    "silent": _silent,
    "wait": _wait,
    "lie": _lie,
    "flipflop": _flipflop,
    "stale": _stale,
    "spam": _spam,
    "fabricate": _fabricate,
    "challenge": _challenge,
    "collude": _collude,
}
"""The decision that each attack attempts; `project` deletes what is not admissible."""


def _channels(plot: AttackView) -> Iterator[str]:
    """Yield the channels, starting at one that the node draws; only `*` if it is allowed."""
    found = channels(plot.view)
    if BROADCAST in found:
        yield BROADCAST
        return
    start = plot.entropy % len(found) if found else 0
    yield from found[start:]
    yield from found[:start]
