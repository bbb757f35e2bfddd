"""A shared countdown: act together on a claim although no clock is shared.

A trace loses one step of lifetime in every round and in every relay, so all who hold a trace of one
write see the same lifetime. Who sees that it is time writes evidence with a short lifetime, others
relay the oldest trace they hold, and everyone acts in the update in which it runs out. Claims that
name what the node already shows (`to` equal to its own state) are over. Invariant: one view, one
decision, exactly equivariant; nothing but lifetimes is read as time.
"""

from __future__ import annotations

import msgspec

from waggle.core.relations import relay_ttl
from waggle.core.schema import BROADCAST, Decision, Trace, View
from waggle.laws import moves

SWITCH = "SWITCH"
LIGHT = "light"
"""The observation that shows the node's own state; claims say `to` which state they turn."""
ON = "on"
LENGTH = 3
"""Lifetime of a fresh countdown: it must run longer than word travels from end to end."""
LAST = 1
"""The lifetime at which everyone acts."""


def is_counted(view: View) -> bool:
    """Whether the task is to switch together and claims say which way."""
    return SWITCH in view.contract.actions and LIGHT in view.private.observation


def decide(view: View) -> Decision:
    """Switch when the countdown is over; until then relay it, start it, or work alone."""
    running, turns = _running(view)
    oldest = min((trace.ttl for trace in running), default=None)
    if oldest == LAST and turns:
        return Decision(SWITCH, None, (), None)
    own = moves.best_evidence(view)
    plain = moves.act(view, _deposit(view, running))
    if plain.task_action == SWITCH and (running or own is not None):
        # Alone one would flip now; together it waits for the countdown.
        return msgspec.structs.replace(plain, task_action="STAY")
    return plain


def _running(view: View) -> tuple[list[Trace], bool]:
    """Return the traces of the countdown to keep to, and whether the node has still to turn.

    Two halves of a crowd may count in opposite phase. Then the one that turns on goes on, and who
    is on already waits for it, so that it takes over the other half.
    """
    turns = {row.claim: row.facts.get("to") for row in view.private.claims}
    counted = [trace for trace in view.traces if trace.claim in turns and not trace.conflict]
    on = [trace for trace in counted if turns[trace.claim] == ON]
    shown = view.private.observation[LIGHT]
    return (on, shown != ON) if on else (counted, shown == ON)


def _deposit(view: View, running: list[Trace]) -> Trace | None:
    """Relay the oldest countdown; without one, start one where everyone in sight agrees."""
    if not view.private.channels or not view.contract.deposits:
        return None
    alive = [trace for trace in running if relay_ttl(trace)]
    if alive:
        first = min(alive, key=lambda trace: (trace.ttl, -trace.support, -trace.novelty))
        return moves.relay(first, BROADCAST)
    own = moves.best_evidence(view)
    if own is None or running:
        return None
    return msgspec.structs.replace(moves.fresh(own, BROADCAST), ttl=LENGTH)
