"""Runs that were never played: the plan of a recipe with scores made up by a rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from waggle.evaluate.plan import Cell, Recipe, cells
from waggle.evaluate.rows import Row

Rule = Callable[[Cell], float]
METHODS: dict[str, dict[str, Any]] = {
    "teacher": {"law": "expert", "label": "Expert", "group": "Reference", "ranked": False},
    "quiet": {"law": "nocomm", "group": "Controls", "teacher": "none", "backbone": "none"},
    "learned": {"law": "nano", "label": "Ours", "group": "Learned", "teacher": "expert",
                "backbone": "nano", "order": "canonical"},
}  # fmt: skip
STAFFED = {
    f"learned-{schedule}": {
        **METHODS["learned"],
        "worker": {"name": "native", "schedule": schedule},
    }
    for schedule in ("full", "reuse")
}
SILO = {"tasks": ["silo/I-01", "silo/II-11", "silo/III-26"], "n": [16, 32]}
SWARM = {"tasks": ["swarmbench/pursuit", "swarmbench/foraging"], "n": [16, 32]}
GRAPHS = {"tasks": ["agentsnet/*"], "n": [8, 16], "options": {"agentsnet": {"priority": True}},
          "vary": {"agentsnet": {"family": ["ws", "ba"], "index": [0, 1]}}}  # fmt: skip
SWAPPED = {**GRAPHS, "tasks": ["agentsnet/coloring"],
           "options": {"agentsnet": {"priority": True, "goal": "consensus"}}}  # fmt: skip
SHOCK = {"tasks": ["silo/III-26"], "n": [32], "shock": True, "seeds": [22_000, 22_001]}
PORTS = {**SILO, "options": {"silo": {"regime": "ports"}}, "vary": {"silo": {"cap": [512, 4096]}}}
LATE_METHODS: dict[str, dict[str, Any]] = {
    "whole": {"law": "expert"},
    "no-decay": {"law": "expert", "switches": {"decay": False}, "label": "no decay"},
    "lossy": {"law": "expert", "engine": "event", "perturbation": {"loss": 0.1}},
    "other": {"law": "heuristic"},
}
LATE = {"n": [32, 64], "tasks": ["swarmbench/pursuit", "silo/III-26"], "shock": True,
         "methods": list(LATE_METHODS), "seeds": {"start": 22_000, "count": 2}}  # fmt: skip
"""Late counterevidence: two tasks at two populations."""


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
        counters={"updates": 10, "stage.first": 9, "stage.projected": 1, "messages.delivered": 64,
                  "writes.candidate": 12, "writes.executed": 8},
    )  # fmt: skip


def played(made: Recipe, rule: Rule, **metrics: float) -> list[Row]:
    """Return the rows of a whole plan."""
    return [row(cell, rule(cell), **metrics) for cell in cells(made)]


def by_method(**scores: float) -> Rule:
    """Return a rule that gives every method one score."""
    return lambda cell: scores[cell.method]


def course(shift: int = 0, stale: float = 1.0) -> dict[str, list[float]]:
    """A swarm of which half holds the old claim, challenges it and takes the new one."""
    names = ("none", "conflict", "reopened", "attempted")
    old = [0.5, 0.5, 0.5, *[0.25] * (1 + shift), 0.0]
    quiet = [0.0] * len(old)
    new = [0.0, 0.0, 0.0, *[0.125] * (1 + shift), 0.75]
    busy = [0.0, 0.0, 0.125, 0.25, *[0.0] * (len(old) - 4)]
    mass = [1.0, 1.0, 2.0, *[3.0] * (1 + shift), 1.0]
    return {
        "injection": [2.0], "holders": [0.5], "cleared": [0.125], **dict.fromkeys(names, quiet),
        "old": old, "new": new, "challenge": busy, "synthesize": list(reversed(busy)), "mass": mass,
        "stale": [stale] * len(old), "delivered": [2.0] * len(old),
    }  # fmt: skip


def late_row(cell: Cell, *, hit: bool, latency: float | None, stale: float) -> Row:
    """Return the row of a cell with late counterevidence."""
    given = {"recovery": float(hit), "event_recovery": 1.0, "outcome_recovery": float(hit),
             "stale_auc": stale, "post_messages": 4.0}  # fmt: skip
    made = row(cell, 0.5 if cell.method == "lossy" else 1.0, **given)
    metrics = {**made.metrics, "resynthesis_latency": latency}
    data = {name: getattr(made, name) for name in made.__struct_fields__}
    return Row(**{**data, "metrics": metrics, "course": course(stale=stale)})


def arms_of(arms: tuple[str, ...], seeds: int) -> Recipe:
    """Return the recipe of a factorial with some arms and training seeds."""
    names = {f"{arm}-{seed}": {"law": "expert"} for arm in arms for seed in range(seeds)}
    blocks = [
        {**LATE, "methods": list(names), "seeds": {"start": 22_000, "count": 4}},
        {**LATE, "methods": list(names), "shock": False, "seeds": [20_000]},
    ]
    return Recipe.model_validate({"title": "T", "methods": names, "blocks": blocks})


@cache
def everything() -> tuple[Recipe, list[Row]]:
    """A run that has rows for every table and figure, made once."""
    made = recipe(
        {**SILO, "rounds": [3, 9]}, {**SWARM, "n": [8, 16]}, GRAPHS, SWAPPED, SHOCK, PORTS,
        {"tasks": ["swarmbench/flocking", "swarmbench/transport"], "n": [16]},
        {"tasks": ["silo/II-16"], "n": [32], "methods": list(STAFFED)},
        methods={**METHODS, **STAFFED},
    )  # fmt: skip
    rows = played(made, lambda cell: {"teacher": 1.0, "quiet": 0.25}.get(cell.method, 0.5))
    told = {"recovery": 1.0, "resynthesis_latency": 2.0, "stale_auc": 3.0, "post_messages": 4.0}
    return made, [
        msgspec.structs.replace(row, course=course(), metrics={**row.metrics, **told})
        if row.shock else row
        for row in rows
    ]  # fmt: skip


def weighed(rows: list[Row], method: str, *digests: str) -> list[Row]:
    """Name the weights that played a method's rows, in turn; none where empty."""
    own = [row for row in rows if row.method == method]
    named = {
        row.cell: msgspec.structs.replace(
            row, weights=digests[place % len(digests)] or msgspec.UNSET
        )
        for place, row in enumerate(own)
    }
    return [named.get(row.cell, row) if row.method == method else row for row in rows]
