"""Expert rules for substrates without specific ones: sound, and never worse than silence.

One decision does everything the view justifies at once. It challenges a refuted commitment and
replaces it in the same update, challenges a refuted candidate on a channel that supports it,
commits if a claim is ready or nearly so, and otherwise writes what neighbours are least likely to
know. If the contract has an action that follows a claim, the SwarmBench rules apply.
Invariant: every write and commitment is admissible by construction, and ties are broken by lot.
"""

from __future__ import annotations

from functools import lru_cache

from waggle.core.relations import refuted
from waggle.core.schema import (
    MAX_BIN,
    Commitment,
    Contract,
    Decision,
    Evidence,
    Trace,
    View,
    takes_claim,
)
from waggle.laws import moves
from waggle.laws.expert import swarmbench

_PROVISIONAL = 3
"""The coverage from which a claim that is not ready is held until evidence refutes it."""


def decide(view: View) -> Decision:
    """Dispatch to the SwarmBench or the plain rules, by the contract."""
    return swarmbench.decide(view) if names_places(view.contract) else _plain(view)


@lru_cache(maxsize=4096)
def names_places(contract: Contract) -> bool:
    """Return whether a contract lets a node follow a claim to its place and broadcast."""
    return contract.broadcast and any(map(takes_claim, contract.actions))


def _plain(view: View) -> Decision:
    """Challenge or inform, and commit to the best claim that own evidence does not refute."""
    against = moves.held_contradiction(view)
    if against is not None:
        challenge = _challenge(view, against)
        if challenge is not None:
            return moves.act(view, challenge, commitment(view))
    candidate = moves.candidate_contradiction(view)
    deposit = None if candidate is None else _challenge(view, candidate)
    free = view.commitment is None
    return moves.act(view, deposit or write(view), commitment(view) if free else _firmer(view))


def commitment(view: View) -> Commitment | None:
    """Return the best ready claim at full confidence, else the best known one provisionally."""
    ready = moves.best_ready(view)
    if ready is not None:
        return Commitment(ready, MAX_BIN)
    coverage = view.private.coverage
    if coverage is None or coverage < _PROVISIONAL:
        return None
    heard = {t.claim for t in view.traces if t.conflict == 0 and t.support > 0}
    known = heard | {e.claim for e in view.private.evidence}
    claim = moves.best_claim(view, known - refuted(view))
    return None if claim is None else Commitment(claim, coverage)


def write(view: View) -> Trace | None:
    """Return the most informative write: evidence no neighbour has, a trace, or other evidence."""
    trace = moves.best_trace(view, [t for t in moves.relayable(view) if t.novelty + t.support])
    evidence = _unheard(view) or moves.best_evidence(view)
    if evidence is not None and _first(view, evidence, trace):
        channel = moves.by_lot(view, avoid=_informed(view, evidence.claim))
        if channel is not None:
            return moves.fresh(evidence, channel)
    if trace is None:
        return None
    channel = moves.by_lot(view, avoid=_informed(view, trace.claim))
    return None if channel is None else moves.relay(trace, channel)


def _unheard(view: View) -> Evidence | None:
    """Return the strongest new evidence on a claim that no trace mentions."""
    heard = {trace.claim for trace in view.traces}
    return moves.best_evidence(view, lambda e: e.novelty > 0 and e.claim not in heard)


def _first(view: View, evidence: Evidence, trace: Trace | None) -> bool:
    """Return whether own evidence is written before a trace is relayed."""
    if not evidence.novelty:
        return trace is None and evidence.support > 0
    fresher = trace is None or evidence.novelty >= trace.novelty
    return fresher or not _informed(view, evidence.claim)


def _challenge(view: View, against: Evidence) -> Trace | None:
    """Write verified conflict to a neighbour that mentions the claim, or to any other."""
    informed = _informed(view, against.claim)
    others = [port.channel for port in view.private.channels if port.channel not in informed]
    channel = moves.by_lot(view, avoid=others) or moves.by_lot(view)
    return None if channel is None else moves.fresh(against, channel)


def _firmer(view: View) -> Commitment | None:
    """Return the held claim at full confidence once it is ready, else None (keep)."""
    held = view.commitment
    if held is None or held.confidence_bin == MAX_BIN or held.claim not in view.private.ready:
        return None
    if moves.contradiction(view, held.claim) is not None:
        return None
    return Commitment(held.claim, MAX_BIN)


def _informed(view: View, claim: str) -> list[str]:
    """Return the channels with a trace of the claim: neighbours that know it already."""
    return [trace.channel for trace in view.traces if trace.claim == claim]
