"""A shared countdown: start together although no clock is shared.

A trace loses one step of lifetime in every round and in every relay, so all who hold a trace of one
write see the same lifetime. Who sees another light than its own says so; who sees or hears of it
turns its light on, waits, and passes on the youngest trace. When the last one runs out, which is in
one round for everybody, all lights are on, and from then on all switch in every round. Who joins
with another light stops everybody once more. Crowds wider than a trace lives stay out of step.
Invariant: one view, one decision, exactly equivariant; nothing but lifetimes is read as time.
"""

from __future__ import annotations

import msgspec

from waggle.core.relations import relay_ttl
from waggle.core.schema import BROADCAST, Decision, Trace, View
from waggle.laws import moves

SWITCH = "SWITCH"
LIGHT = "light"
"""The observation that shows the node's own state."""


def is_counted(view: View) -> bool:
    """Whether the task is to switch lights together."""
    return SWITCH in view.contract.actions and LIGHT in view.private.observation


def decide(view: View) -> Decision:
    """Gather; turn on and wait while somebody is out of step; else switch in every round."""
    apart = moves.best_evidence(view)
    plain = moves.act(view, _deposit(view))
    if plain.task_action not in ("STAY", SWITCH):
        return plain
    waits = apart is not None or any(not trace.conflict for trace in view.traces)
    dark = view.private.observation[LIGHT] == "off"
    return msgspec.structs.replace(plain, task_action=SWITCH if dark or not waits else "STAY")


def _deposit(view: View) -> Trace | None:
    """Say that lights differ in sight, else pass on the youngest countdown."""
    if not view.private.channels or not view.contract.deposits:
        return None
    apart = moves.best_evidence(view)
    if apart is not None:
        return moves.fresh(apart, BROADCAST)
    alive = [trace for trace in view.traces if relay_ttl(trace) and not trace.conflict]
    best = max(alive, key=lambda t: (t.ttl, t.support, t.novelty), default=None)
    return None if best is None else moves.relay(best, BROADCAST)
