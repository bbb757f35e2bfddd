"""Expert rules for SwarmBench: write what others lack, follow what is needed and was not seen.

Own observation comes first: a node that sees or remembers what it needs takes its private move; a
node that was only told of it follows the newest report that is worth the way. Every update also
writes the newest thing the node can vouch for, challenges what its own observation refutes, and
commits to what the gate calls ready. Lights are switched by a shared countdown. Invariant: one view
gives one decision, and ties are broken by lot (see `moves`).
"""

from __future__ import annotations

from waggle.core.relations import refuted
from waggle.core.schema import (
    BROADCAST,
    MAX_BIN,
    MAX_TTL,
    ClaimRow,
    Commitment,
    Decision,
    Evidence,
    Trace,
    View,
)
from waggle.laws import countdown, moves

YOUNG = 3
"""Rounds for which a trace of a prey is worth relaying."""
FRESH = 3
"""Age up to which a report of a prey is worth following."""
REACH = 5
"""Bin of distance up to which a report of a prey is worth following."""
STAYS = ("food", "nest", "exit")
"""Kinds of things that stay where they are, so that every report of them is worth following."""


def decide(view: View) -> Decision:
    """Count down where lights are switched, else walk to places and say where they are."""
    if countdown.is_counted(view):
        return countdown.decide(view)
    against = moves.held_contradiction(view)
    deposit = _challenge(against) if against is not None else _news(view)
    commit = _commitment(view) if view.commitment is None or against is not None else None
    return moves.follow(view, moves.act(view, deposit, commit), _goal(view))


def _goal(view: View) -> str | None:
    """Return the reported claim to walk to, or None where the private move is better."""
    kinds = _wanted(view)
    rows = [row for row in view.private.claims if row.facts.get("kind") in kinds]
    if any(row.facts.get("source") == "seen" for row in rows):
        return None
    wrong = refuted(view)
    told = [row for row in rows if "down" in row.facts and row.claim not in wrong]
    near = [row for row in told if row.facts["kind"] in STAYS or _worth(row)]
    best = moves.distinguished(
        near,
        lambda r: (-_number(r, "age"), -_distance(r)),
        lambda r: moves.claim_key(view, r.claim),
    )
    return None if best is None else best.claim


def _worth(row: ClaimRow) -> bool:
    return _number(row, "age") <= FRESH and _distance(row) <= REACH


def _distance(row: ClaimRow) -> int:
    return max(abs(_number(row, "down")), abs(_number(row, "right")))


def _number(row: ClaimRow, name: str) -> int:
    value = row.facts.get(name, 0)
    return value if isinstance(value, int) else 0


def _wanted(view: View) -> tuple[str, ...]:
    """Return the kinds of places this node needs now."""
    carrying = view.private.observation.get("carrying")
    if carrying is None:
        return ("prey", "exit")
    return ("nest",) if carrying else ("food",)


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
    # What moves on is relayed while word of it is young.
    traces = [t for t in traces if kinds.get(t.claim) in STAYS or t.ttl > MAX_TTL - YOUNG]
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
