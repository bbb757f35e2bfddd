"""What Byzantine nodes do: attacks made of a node's own view, bounded by the rules of admission.

    waggle run silo/III-26 -n 16 --perturb.byzantine 0.1 --perturb.attack flipflop

An attack starts from what an honest node would decide on the same view and changes it; whatever it
tries, `project` leaves what is admissible, and transport treats its writes like any others. So an
attacker can withhold, mislead and repeat, and it cannot forge evidence, amplify or impersonate.
Invariant: an attack reads the view, the round and draws named by keys, so that relabelling the
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
    """What an attacker knows at one update."""

    view: View
    honest: Decision
    """What the law decided on this view."""
    entropy: int
    round: int
    draw: Callable[[str], int]
    """A draw of every claim of the view, the same for all attackers of an episode."""


def corrupt(
    attack: Attack, shown: ShownView, honest: Decision, round: int, draw: Callable[[str], int]
) -> Decision:
    """Return the admissible decision of a Byzantine node in place of an honest one.

    Args:
        attack: what Byzantine nodes do in this episode.
        shown: the node's view.
        honest: what the law decided on it.
        round: the present round.
        draw: a draw of every world claim that all nodes share.
    """
    plot = AttackView(
        shown.view, honest, shown.entropy, round, lambda claim: draw(shown.claims[claim])
    )
    return project(shown.view, _TRIES[attack](plot))


def _silent(plot: AttackView) -> Decision:
    """Act as the law says; write and commit nothing."""
    return replace(plot.honest, deposits=(), commit=None)


def _wait(plot: AttackView) -> Decision:
    """Do nothing at all."""
    return Decision(WAIT, None, (), None)


def _lie(plot: AttackView) -> Decision:
    """Act otherwise, and vouch for what the node itself does not believe, without its conflict."""
    view = plot.view
    others = [a for a in silent_actions(view) if a != plot.honest.task_action]
    action = others[plot.entropy % len(others)] if others else plot.honest.task_action
    heard = [t for t in view.traces if t.claim != view.proposal.claim]
    heard.sort(key=lambda t: -t.support)
    writes = (replace(strongest(t, c), conflict=0) for t in heard for c in _channels(plot))
    response = None if others else plot.honest.response
    return Decision(action, response, tuple(writes), None)


def _flipflop(plot: AttackView) -> Decision:
    """Be honest in every other round, and lie in between."""
    return plot.honest if plot.round % 2 == 0 else _lie(plot)


def _stale(plot: AttackView) -> Decision:
    """Pass on the oldest trace instead of anything newer, and keep what was committed."""
    aged = sorted((t for t in plot.view.traces if relay_ttl(t)), key=lambda t: t.ttl)
    writes = tuple(strongest(t, c) for t in aged[:1] for c in _channels(plot))
    return replace(plot.honest, deposits=writes, commit=None)


def _spam(plot: AttackView) -> Decision:
    """Write everything that anything backs on every channel, as strongly as possible."""
    writes = (strongest(row, c) for row in rows(plot.view) for c in _channels(plot))
    return replace(plot.honest, deposits=tuple(writes))


def _fabricate(plot: AttackView) -> Decision:
    """Try full strength on every claim that can be named, before what is honest."""
    view = plot.view
    claims = [row.claim for row in (*view.private.claims, *rows(view))]
    made_up = (Trace(c, z, MAX_BIN, MAX_BIN, 0, MAX_TTL) for z in claims for c in _channels(plot))
    return replace(plot.honest, deposits=(*made_up, *plot.honest.deposits))


def _challenge(plot: AttackView) -> Decision:
    """Try full conflict on every claim of the view, before what is honest."""
    against = (
        replace(strongest(row, c), support=0, conflict=MAX_BIN)
        for row in rows(plot.view)
        for c in _channels(plot)
    )
    return replace(plot.honest, deposits=(*against, *plot.honest.deposits))


def _collude(plot: AttackView) -> Decision:
    """Speak for one claim only, and commit to it: of those in view, the one all would choose."""
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
"""What each attack tries; `project` deletes what is not admissible."""


def _channels(plot: AttackView) -> Iterator[str]:
    """Yield where a deposit may go, from a place that the node draws; `*` stands for all."""
    found = channels(plot.view)
    if BROADCAST in found:
        yield BROADCAST
        return
    start = plot.entropy % len(found) if found else 0
    yield from found[start:]
    yield from found[:start]
