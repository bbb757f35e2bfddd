"""Expert rules for SwarmBench: tell what others lack, follow what was told, hold what was seen.

Own eyes come first: a node that sees or remembers what it needs takes its private move; one that
was only told follows the field. Every update also writes the most newsworthy thing the node can
vouch for, challenges what its own eyes refute, and commits to what the gate calls ready.
Invariant: one view, one decision, ties by lot (see `moves`).
"""

from __future__ import annotations

from waggle.core.schema import (
    BROADCAST,
    MAX_BIN,
    MAX_TTL,
    WAIT,
    Commitment,
    Decision,
    Evidence,
    Trace,
    View,
)
from waggle.laws import moves

YOUNG = 3
"""Rounds for which word of a prey is worth passing on."""


def decide(view: View) -> Decision:
    """Dispatch on the task of the contract."""
    task = view.contract.task.partition("/")[2]
    if task in ("pursuit", "foraging"):
        return _site(view, task)
    return _plain(view)


def _plain(view: View) -> Decision:
    """Synchronization, Flocking, Transport: tell what one has found, follow it while only told.

    That is a landmark, or the beat of the lights; lights are read off the window, a beat is not.
    """
    against = moves.held_contradiction(view)
    deposit = _challenge(against) if against is not None else _news(view)
    refuted = {e.claim for e in view.private.evidence if e.conflict > 0}
    commit = None
    if view.commitment is None or against is not None:
        ready = moves.best_claim(view, [z for z in view.private.ready if z not in refuted])
        commit = None if ready is None else Commitment(ready, MAX_BIN)
    sources = {row.facts.get("source") for row in view.private.claims}
    intent = "FIELD" if "told" in sources and "seen" not in sources else "PRIVATE"
    return _decision(view.proposal.action, deposit, commit, intent)


def _site(view: View, task: str) -> Decision:
    """Pursuit and Foraging: walk to sites, tell of sites."""
    wanted = _wanted(view, task)
    rows = [row.facts for row in view.private.claims]
    seen = any(facts.get("source") == "seen" and facts.get("kind") == wanted for facts in rows)
    # Word of the nest tells where the food is not: food and nest lie at two ends of one way.
    told = any(facts.get("source") == "told" for facts in rows)
    against = moves.held_contradiction(view)
    deposit = _challenge(against) if against is not None else _news(view)
    commit = _commitment(view, task) if view.commitment is None or against is not None else None
    hinted = told or view.private.observation.get("missed") is not None
    intent = "FIELD" if hinted and not seen else "PRIVATE"
    return _decision(view.proposal.action, deposit, commit, intent)


def _wanted(view: View, task: str) -> str:
    """Name the kind of site this node needs now."""
    if task == "pursuit":
        return "prey"
    return "nest" if view.private.observation.get("carrying") else "food"


def _decision(
    action: str, deposit: Trace | None, commit: Commitment | None, intent: str
) -> Decision:
    if action == WAIT:
        return Decision(WAIT, None, (), None)
    return Decision(action, None, () if deposit is None else (deposit,), commit, intent)


def _challenge(against: Evidence) -> Trace:
    return moves.fresh(against, BROADCAST)


def _news(view: View) -> Trace | None:
    """Own evidence, then a trace worth passing on, then a warning against a wrong claim."""
    if not view.private.channels:
        return None
    evidence = _needed(view)
    if evidence is not None:
        return moves.fresh(evidence, BROADCAST)
    refuted = {e.claim for e in view.private.evidence if e.conflict > 0}
    traces = [t for t in moves.relayable(view) if t.claim not in refuted and t.support > 0]
    if view.contract.task.endswith("/pursuit"):
        # A prey moves on: word of it is passed on while it is young.
        traces = [t for t in traces if t.ttl > MAX_TTL - YOUNG]
    trace = moves.best_trace(view, traces)
    if trace is not None:
        return moves.relay(trace, BROADCAST)
    warnings = [e for e in view.private.evidence if e.conflict > 0 and e.novelty > 0]
    warning = moves.distinguished(warnings, lambda e: (e.novelty, moves.claim_key(view, e.claim)))
    return None if warning is None else _challenge(warning)


def _needed(view: View) -> Evidence | None:
    """Return the own evidence that is news and that most contacts can use now."""
    kinds = {row.claim: row.facts.get("kind") for row in view.private.claims}
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


def _commitment(view: View, task: str) -> Commitment | None:
    """Commit to the best ready claim about a target that may move or be used up."""
    kinds = {row.claim: row.facts.get("kind") for row in view.private.claims}
    refuted = {e.claim for e in view.private.evidence if e.conflict > 0}
    target = "prey" if task == "pursuit" else "food"
    ready = [z for z in view.private.ready if z not in refuted and kinds.get(z) == target]
    claim = moves.best_claim(view, ready)
    return None if claim is None else Commitment(claim, MAX_BIN)
