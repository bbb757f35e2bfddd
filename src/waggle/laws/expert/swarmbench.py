"""Expert rules for SwarmBench: write what others lack, follow reports of what the node needs.

A node that has not seen what it needs follows a report of it if that is worth the walk (`places`);
lights are switched by a shared countdown (`countdown`). Every update also writes the node's newest
evidence, challenges claims that its own observation refutes, and commits to claims that the gate
reports ready. Invariant: a deterministic function of the view, with ties broken by lot (see
`moves`).
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
"""Rounds for which a trace is worth relaying, by kind; every hop makes its place coarser."""


def decide(view: View) -> Decision:
    """Count down if the task is to switch lights, else walk to places and report them."""
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
    """Return the node's new evidence that most contacts can use now."""
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
