"""A shared countdown: nodes start together without a shared clock.

A trace loses one step of lifetime in every round and at every relay, so all holders of a trace of
one write see the same lifetime. A node that sees a light different from its own reports it. A node
that sees or hears of a difference turns its light on, waits, and relays the youngest trace. The
last trace expires in the same round at all nodes; all lights are then on, and from then on all
nodes switch in every round. A node that joins with a different light stops all nodes again. Swarms
wider than the lifetime of a trace stay out of step. Invariant: a deterministic function of the
view, exactly equivariant; only lifetimes are read as time.
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
    """Return whether the task is to switch lights together."""
    return SWITCH in view.contract.actions and LIGHT in view.private.observation


def decide(view: View) -> Decision:
    """Gather; turn on and wait while a node is out of step; else switch in every round."""
    apart = moves.best_evidence(view)
    plain = moves.act(view, _deposit(view))
    if plain.task_action not in ("STAY", SWITCH):
        return plain
    waits = apart is not None or any(not trace.conflict for trace in view.traces)
    dark = view.private.observation[LIGHT] == "off"
    return msgspec.structs.replace(plain, task_action=SWITCH if dark or not waits else "STAY")


def _deposit(view: View) -> Trace | None:
    """Report that lights in sight differ, else relay the youngest countdown trace."""
    if not view.private.channels or not view.contract.deposits:
        return None
    apart = moves.best_evidence(view)
    if apart is not None:
        return moves.fresh(apart, BROADCAST)
    alive = [trace for trace in view.traces if relay_ttl(trace) and not trace.conflict]
    best = max(alive, key=lambda t: (t.ttl, t.support, t.novelty), default=None)
    return None if best is None else moves.relay(best, BROADCAST)
