"""Runs that were never played: the plan of a recipe with scores made up by a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from waggle.evaluate.plan import Cell, Recipe, cells
from waggle.evaluate.rows import Row

Rule = Callable[[Cell], float]
METHODS: dict[str, dict[str, Any]] = {
    "teacher": {"law": "expert", "label": "Expert", "group": "Reference", "ranked": False},
    "quiet": {"law": "nocomm", "group": "Controls", "teacher": "none", "backbone": "none"},
    "learned": {"law": "nano", "label": "Ours", "group": "Learned", "teacher": "expert",
                "backbone": "nano", "order": "canonical"},
}  # fmt: skip


def recipe(*blocks: dict[str, Any], **given: Any) -> Recipe:
    """Return a recipe of the three methods over some blocks."""
    whole = [
        {"methods": list(METHODS), "seeds": {"start": 20_000, "count": 2}, **b} for b in blocks
    ]
    base = {"title": "T <1>", "methods": METHODS, "source": "recipes/x.toml"}
    return Recipe.model_validate({**base, "blocks": whole, **given})


def row(cell: Cell, score: float, **metrics: float) -> Row:
    """Return the row of a cell with a score, as if it had been played."""
    case = cell.case
    rounds = {"silo": (case.rounds or 9) + 1, "swarmbench": 100}.get(case.substrate, 6)
    scores = {"score": score, "strict": float(score == 1), "soft": score, "partial": score}
    quiet = cell.method == "quiet"
    return Row(
        cell=cell.id, method=cell.method, substrate=case.substrate, task=case.task, n=case.n,
        seed=case.seed, rounds=rounds, shock=case.shock, options=case.options, scores=scores,
        metrics={"score": score, "messages": 0.0 if quiet else 8.0, "attempted": 9.0,
                 "bytes": 2000.0, **metrics},
        counters={"updates": 10, "stage.first": 9, "stage.projected": 1, "messages.delivered": 64},
    )  # fmt: skip


def played(made: Recipe, rule: Rule, **metrics: float) -> list[Row]:
    """Return the rows of a whole plan."""
    return [row(cell, rule(cell), **metrics) for cell in cells(made)]


def by_method(**scores: float) -> Rule:
    """Return a rule that gives every method one score."""
    return lambda cell: scores[cell.method]
