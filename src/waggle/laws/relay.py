"""`relay`: a law without task knowledge, the floor that every other law has to beat.

It writes its own evidence, else relays the best trace, preferably to a neighbour that did not send
it. Without own evidence it also follows the claim of that trace.
It never commits, challenges or compares. If a law is not better than this one, the adapter and the
runtime do the organising, not the law. Invariant: a deterministic function of the view, exactly
equivariant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from waggle.core.protocols import Decode, Request
from waggle.core.relations import strongest
from waggle.core.schema import Decision, View
from waggle.laws import moves


class Relay:
    """Write own evidence, else relay the best trace; without own evidence, follow traces."""

    name: ClassVar[str] = "relay"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(decide(request.view)) for request in requests]


def decide(view: View) -> Decision:
    """Return the private action with one write; without own evidence, follow a heard claim."""
    seen = moves.best_evidence(view)
    heard = moves.best_trace(view, moves.relayable(view))
    row = seen or heard
    channel = None if row is None else _listener(view, row.claim)
    deposit = None if row is None or channel is None else strongest(row, channel)
    decision = moves.act(view, deposit)
    if seen is not None:
        return decision
    trace = heard or moves.best_trace(view, view.traces)
    return decision if trace is None else moves.follow(view, decision, trace.claim)


def _listener(view: View, claim: str) -> str | None:
    """Return a channel by lot, preferably one that has not sent the claim."""
    carriers = [trace.channel for trace in view.traces if trace.claim == claim]
    return moves.by_lot(view, avoid=carriers) or moves.by_lot(view)
