"""The fixed local heuristic (paper App. "Same-Runtime Decision-Law Ablation").

It uses every operation of the runtime but no context-dependent rule. It takes the first move that
applies: challenge a commitment that verified conflict refutes; commit to the ready claim with the
highest support; relay the admissible trace with the highest support; deposit fresh private
evidence; take the private proposal. Invariant: a deterministic function of the view, exactly
equivariant (see `moves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from waggle.core.protocols import Decode, Request
from waggle.core.schema import MAX_BIN, Commitment, Decision, View
from waggle.laws import moves


class Heuristic:
    """Challenge, commit, relay, deposit, or work alone, in that order."""

    name: ClassVar[str] = "heuristic"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(decide(request.view)) for request in requests]


def decide(view: View) -> Decision:
    """Return the first of the five moves that applies."""
    for move in (challenge, commit, relay, deposit):
        decision = move(view)
        if decision is not None:
            return decision
    return moves.act(view)


def challenge(view: View) -> Decision | None:
    """Write the verified conflict against the held claim, which reopens it."""
    against = moves.held_contradiction(view)
    channel = None if against is None else moves.by_lot(view)
    if against is None or channel is None:
        return None
    return moves.act(view, moves.fresh(against, channel))


def commit(view: View) -> Decision | None:
    """Commit to the best ready claim if nothing is held."""
    if view.commitment is not None:
        return None
    claim = moves.best_ready(view)
    return None if claim is None else moves.act(view, commit=Commitment(claim, MAX_BIN))


def relay(view: View) -> Decision | None:
    """Relay the best-supported trace, but not on the channel it came from."""
    trace = moves.best_trace(view, moves.relayable(view))
    channel = None if trace is None else moves.by_lot(view, avoid=(trace.channel,))
    if trace is None or channel is None:
        return None
    return moves.act(view, moves.relay(trace, channel))


def deposit(view: View) -> Decision | None:
    """Write the strongest private evidence."""
    evidence = moves.best_evidence(view)
    channel = None if evidence is None else moves.by_lot(view)
    if evidence is None or channel is None:
        return None
    return moves.act(view, moves.fresh(evidence, channel))
