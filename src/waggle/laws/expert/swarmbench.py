"""Expert rules for SwarmBench: write what others lack, follow what is needed and was not seen.

A node that was only told of what it needs follows the report if that is worth the way (`places`);
lights are switched by a shared countdown (`countdown`). Every update also writes the newest thing
the node can vouch for, challenges what its own observation refutes, and commits to what the gate
calls ready. Invariant: one view gives one decision, and ties are broken by lot (see `moves`).
"""

from __future__ import annotations

from waggle.core.relations import refuted
from waggle.core.schema import (
    BROADCAST,
    MAX_BIN,
    MAX_TTL,
    Commitment,
    Decision,
    Evidence,
    Trace,
    View,
)
from waggle.laws import countdown, moves, places

YOUNG = {"prey": 3, "food": 0, "nest": 0}
"""Rounds for which a trace of a kind is worth relaying; every hop makes its place coarser."""


def decide(view: View) -> Decision:
    """Count down where lights are switched, else walk to places and say where they are."""
    if countdown.is_counted(view):
        return countdown.decide(view)
    against = moves.held_contradiction(view)
    deposit = _challenge(against) if against is not None else _news(view)
    commit = _commitment(view) if view.commitment is None or against is not None else None
    return moves.follow(view, moves.act(view, deposit, commit), places.goal(view))


def _challenge(against: Evidence) -> Trace:
    return moves.fresh(against, BROADCAST)


def _news(view: View) -> Trace | None:
    """Return own evidence, else a trace worth relaying, else a warning against a wrong claim."""
    if not view.private.channels:
        return None
    evidence = _needed(view)
    if evidence is not None:
        return moves.fresh(evidence, BROADCAST)
    wrong, kinds = refuted(view), _kinds(view)
    traces = [t for t in moves.relayable(view) if t.claim not in wrong and t.support > 0]
    traces = [t for t in traces if t.ttl > MAX_TTL - YOUNG.get(str(kinds.get(t.claim)), MAX_TTL)]
    trace = moves.best_trace(view, traces)
    if trace is not None:
        return moves.relay(trace, BROADCAST)
    warnings = [e for e in view.private.evidence if e.conflict > 0 and e.novelty > 0]
    warning = moves.distinguished(warnings, lambda e: (e.novelty, moves.claim_key(view, e.claim)))
    return None if warning is None else _challenge(warning)


def _kinds(view: View) -> dict[str, object]:
    return {row.claim: row.facts.get("kind") for row in view.private.claims}


def _needed(view: View) -> Evidence | None:
    """Return the own evidence that is new and that most contacts can use now."""
    kinds = _kinds(view)
    carriers = sum(port.facts.get("carries") == 1 for port in view.private.channels)
    use = {"nest": carriers, "food": len(view.private.channels) - carriers}
    news = [e for e in view.private.evidence if e.conflict == 0 and e.novelty > 0]
    return moves.distinguished(
        news,
        lambda e: (
            use.get(str(kinds.get(e.claim)), 0),
            e.support,
            e.novelty,
            str(kinds.get(e.claim)),
            moves.claim_key(view, e.claim),
        ),
    )


def _commitment(view: View) -> Commitment | None:
    """Commit to the best ready claim about a target that may move or be used up."""
    kinds, wrong = _kinds(view), refuted(view)
    ready = [z for z in view.private.ready if z not in wrong and kinds.get(z) != "nest"]
    claim = moves.best_claim(view, ready)
    return None if claim is None else Commitment(claim, MAX_BIN)
