"""Choice of the reported claim that is worth walking to, if any.

Own observation comes first, so a node that sees what it needs follows no report. In an unknown
task, only reports with an age are followed, since a node saw those places; a place without an age
is a landmark, and walking there may undo the private plan, as in Flocking. Thresholds were chosen
on development seeds (lab/LOG.md); expert and controls share them. Invariant: a deterministic
function of the view, exactly equivariant.
"""

from __future__ import annotations

from waggle.core.relations import refuted
from waggle.core.schema import ClaimRow, View
from waggle.laws import moves

FRESH = 1
"""Age up to which a report of a prey is worth following."""
REACH = 4
"""Distance bin up to which a report of a prey is worth following."""
NEAR = 4
"""Distance bin from which an exit is worth walking to; a nearer one is searched for."""


def goal(view: View) -> str | None:
    """Return the reported claim to walk to, or None if the private move is better."""
    wrong = refuted(view)
    rows = [row for row in view.private.claims if _is_wanted(view, row)]
    if any(row.facts.get("source") == "seen" for row in rows):
        return None
    reported = [row for row in rows if "down" in row.facts and row.claim not in wrong]
    reported = [row for row in reported if not moves.is_doubtful(view, row.claim)]
    best = moves.distinguished(
        filter(_is_worth_it, reported),
        lambda row: (-_number(row, "age"), -_distance(row)),
        lambda row: moves.claim_key(view, row.claim),
    )
    return None if best is None else best.claim


def _is_wanted(view: View, row: ClaimRow) -> bool:
    """Return whether the node needs this place; in carrying tasks, nest if loaded, else food."""
    carrying = view.private.observation.get("carrying")
    return carrying is None or row.facts.get("kind") == ("nest" if carrying else "food")


def _is_worth_it(row: ClaimRow) -> bool:
    kind = row.facts.get("kind")
    if "age" not in row.facts:
        return kind == "exit" and _distance(row) >= NEAR
    return kind != "prey" or (_number(row, "age") <= FRESH and _distance(row) <= REACH)


def _distance(row: ClaimRow) -> int:
    return max(abs(_number(row, "down")), abs(_number(row, "right")))


def _number(row: ClaimRow, name: str) -> int:
    value = row.facts.get(name, 0)
    return value if isinstance(value, int) else 0
