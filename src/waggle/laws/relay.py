"""`relay`: the floor that every law has to beat, a law that knows no task.

It writes what it sees, else passes on what it hears, and follows the field while it has only heard.
It never commits, challenges or compares. Where a law is not better than this one, the adapter and
the runtime do the organising, not the law. Invariant: one view, one decision, exactly equivariant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from waggle.core.protocols import Decode, Request
from waggle.core.schema import Decision, Trace, View, is_wait
from waggle.laws import moves


class Relay:
    """Tell what is seen, else relay what is heard; follow the field while nothing is seen."""

    name: ClassVar[str] = "relay"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(decide(request.view)) for request in requests]


def decide(view: View) -> Decision:
    """Return the private action with one write; with FIELD where all that is known was heard."""
    seen, channel = moves.best_evidence(view), moves.by_lot(view)
    heard = moves.best_trace(view, moves.relayable(view))
    deposit: Trace | None = None
    if channel is not None and seen is not None:
        deposit = moves.fresh(seen, channel)
    elif channel is not None and heard is not None:
        deposit = moves.relay(heard, channel)
    decision = moves.act(view, deposit)
    if seen is not None or not view.traces or is_wait(decision):
        return decision
    return msgspec.structs.replace(decision, execution_intent="FIELD")
