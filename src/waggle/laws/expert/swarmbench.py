"""Expert rules for SwarmBench: deposit what others lack, follow the field where nothing is seen.

Own observation comes first: a node that sees or remembers what it needs takes its private move; a
node that has only traces of it follows the field. Every update also writes the newest thing the
node can vouch for, challenges what its own observation refutes, and commits to what the gate calls
ready. Invariant: one view gives one decision, and ties are broken by lot (see `moves`).
"""

from __future__ import annotations

from waggle.core.relations import refuted
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
"""Rounds for which a trace of a prey is worth relaying."""


def decide(view: View) -> Decision:
    """Dispatch on the task of the contract."""
    task = view.contract.task.partition("/")[2]
    if task in ("pursuit", "foraging"):
        return _site(view, task)
    return _plain(view)


def _plain(view: View) -> Decision:
    """Synchronization, Flocking, Transport: deposit a find; follow one that was not seen.

    A find is a landmark or the beat of the lights: lights are read off the window, a beat is not.
    """
    against = moves.held_contradiction(view)
    deposit = _challenge(against) if against is not None else _news(view)
    commit = None
    if view.commitment is None or against is not None:
        ready = moves.best_ready(view)
        commit = None if ready is None else Commitment(ready, MAX_BIN)
    sources = {row.facts.get("source") for row in view.private.claims}
    intent = "FIELD" if "told" in sources and "seen" not in sources else "PRIVATE"
    return _decision(view.proposal.action, deposit, commit, intent)


def _site(view: View, task: str) -> Decision:
    """Pursuit and Foraging: walk to sites and deposit where they are."""
    wanted = _wanted(view, task)
    rows = [row.facts for row in view.private.claims]
    seen = any(facts.get("source") == "seen" and facts.get("kind") == wanted for facts in rows)
    # A trace of the nest says where the food is not: food and nest lie at two ends of one way.
    told = any(facts.get("source") == "told" for facts in rows)
    against = moves.held_contradiction(view)
    deposit = _challenge(against) if against is not None else _news(view)
    commit = _commitment(view, task) if view.commitment is None or against is not None else None
    hinted = told or view.private.observation.get("missed") is not None
    intent = "FIELD" if hinted and not seen else "PRIVATE"
    return _decision(view.proposal.action, deposit, commit, intent)


def _wanted(view: View, task: str) -> str:
    """Return the kind of site this node needs now."""
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
    """Return own evidence, else a trace worth relaying, else a warning against a wrong claim."""
    if not view.private.channels:
        return None
    evidence = _needed(view)
    if evidence is not None:
        return moves.fresh(evidence, BROADCAST)
    wrong = refuted(view)
    traces = [t for t in moves.relayable(view) if t.claim not in wrong and t.support > 0]
    if view.contract.task.endswith("/pursuit"):
        # A prey moves on, so a trace of it is relayed while it is young.
        traces = [t for t in traces if t.ttl > MAX_TTL - YOUNG]
    trace = moves.best_trace(view, traces)
    if trace is not None:
        return moves.relay(trace, BROADCAST)
    warnings = [e for e in view.private.evidence if e.conflict > 0 and e.novelty > 0]
    warning = moves.distinguished(warnings, lambda e: (e.novelty, moves.claim_key(view, e.claim)))
    return None if warning is None else _challenge(warning)


def _needed(view: View) -> Evidence | None:
    """Return the own evidence that is new and that most contacts can use now."""
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
    wrong = refuted(view)
    target = "prey" if task == "pursuit" else "food"
    ready = [z for z in view.private.ready if z not in wrong and kinds.get(z) == target]
    claim = moves.best_claim(view, ready)
    return None if claim is None else Commitment(claim, MAX_BIN)
