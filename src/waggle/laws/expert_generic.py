"""Expert rules for a substrate that brings none of its own: sound, and never worse than silence.

One decision does everything the view justifies at once: it challenges a refuted commitment and
replaces it in the same update, commits provisionally where the contract allows it, and writes what
neighbours are least likely to know. Invariant: every write and commitment is admissible by
construction, and ties fall to lots.
"""

from __future__ import annotations

from waggle.core.schema import MAX_BIN, Commitment, Decision, Evidence, Trace, View
from waggle.laws import moves


def decide(view: View) -> Decision:
    """Challenge or inform, and commit to the best claim that own evidence does not refute."""
    against = moves.held_contradiction(view)
    if against is not None:
        return _reopen(view, against)
    free = view.commitment is None
    return moves.act(view, write(view), commitment(view) if free else _firmer(view))


def commitment(view: View) -> Commitment | None:
    """Return the best ready claim at full confidence, else the best known one provisionally."""
    refuted = {e.claim for e in view.private.evidence if e.conflict > 0}
    ready = moves.best_claim(view, [z for z in view.private.ready if z not in refuted])
    if ready is not None:
        return Commitment(ready, MAX_BIN)
    if not view.private.coverage:
        return None
    told = {t.claim for t in view.traces if t.conflict == 0 and t.support > 0}
    known = told | {e.claim for e in view.private.evidence}
    claim = moves.best_claim(view, known - refuted)
    return None if claim is None else Commitment(claim, view.private.coverage)


def write(view: View) -> Trace | None:
    """Return the most newsworthy write: own evidence unless a trace is fresher than it."""
    evidence = moves.best_evidence(view)
    trace = moves.best_trace(view, moves.relayable(view))
    if evidence is not None and (trace is None or evidence.novelty >= trace.novelty):
        channel = moves.by_lot(view, avoid=_informed(view, evidence.claim))
        if channel is not None:
            return moves.fresh(evidence, channel)
    if trace is None:
        return None
    channel = moves.by_lot(view, avoid=_informed(view, trace.claim))
    return None if channel is None else moves.relay(trace, channel)


def _reopen(view: View, against: Evidence) -> Decision:
    """Challenge the held claim and take its replacement in the same update."""
    told = {trace.channel for trace in view.traces if trace.claim == against.claim}
    wrong = [port.channel for port in view.private.channels if port.channel not in told]
    channel = moves.by_lot(view, avoid=wrong) or moves.by_lot(view)
    if channel is None:
        return moves.act(view, write(view))
    replacement = commitment(view)
    return moves.act(view, moves.fresh(against, channel), replacement)


def _firmer(view: View) -> Commitment | None:
    """Return the held claim at full confidence once it is ready, else None (keep)."""
    held = view.commitment
    if held is None or held.confidence_bin == MAX_BIN or held.claim not in view.private.ready:
        return None
    return Commitment(held.claim, MAX_BIN)


def _informed(view: View, claim: str) -> list[str]:
    """Return the channels that told this node the claim, so know it already."""
    return [trace.channel for trace in view.traces if trace.claim == claim]
