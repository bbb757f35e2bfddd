"""The four-arm factorial: all arms of several paired seeds from one warm start, several at once.

Arms of one seed share warm start, batches, orbit elements and dropout; they differ in the weights
of the losses alone. Small backbones leave most of a GPU idle, so arms run side by side in processes
of their own. Each arm is diagnosed where it was trained; results are kept beside it, and a result
that is there is not made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from waggle.core.seeds import Split
from waggle.scd.config import ARMS, Arm, Recipe

RESULT = "diagnosis.json"


class Cell(NamedTuple):
    """One arm of one seed."""

    recipe: Recipe
    corpus: Path
    out: Path
    start: int
    """Seed whose warm start all arms share."""
    seed: int
    arm: Arm
    views: int
    native: int
    transitions: int


def run_cell(cell: Cell) -> dict[str, Any]:
    """Train one arm and measure decisions, deployed structure, fresh probe and training heads."""
    from waggle.scd.diagnose import law_of
    from waggle.scd.findings import Findings, diagnose_folder, diagnose_law
    from waggle.scd.stages import Stages

    stages = Stages(cell.recipe, cell.corpus, cell.out, cell.seed, start=cell.start)
    law = stages.arm(cell.arm)
    path = law.parent / RESULT
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return kept
    findings = Findings(
        stages.store, views=cell.views, native=cell.native, seed=0,
        evaluation_seed=Split.EVALUATION.value.start,
    )  # fmt: skip
    result: dict[str, Any] = {"arm": cell.arm, "seed": cell.seed}
    result |= diagnose_law(findings, law_of(law), cell.recipe.order)
    result |= diagnose_folder(findings, law, cell.transitions)
    path.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result


def run_all(cells: Sequence[Cell], jobs: int) -> Iterator[dict[str, Any]]:
    """Run cells, so many at once; yield results as they come."""
    if jobs <= 1:
        yield from map(run_cell, cells)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run_cell, cell) for cell in cells]):
            yield done.result()


def cells(
    recipe: Recipe, corpus: Path, out: Path, seeds: Sequence[int], *, views: int, native: int,
    transitions: int = 2_376,
) -> list[Cell]:  # fmt: skip
    """Return every arm of every seed; all start from the first seed's warm start."""
    return [
        Cell(recipe, corpus, out, seeds[0], seed, arm, views, native, transitions)
        for seed in seeds
        for arm in ARMS
    ]


def relative(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort results by seed and arm, with probe losses divided by those of Decision only."""
    rows = sorted(results, key=lambda r: (r["seed"], ARMS.index(r["arm"])))
    base = {row["seed"]: row for row in rows if row["arm"] == "decision"}
    for row in rows:
        for name in ("probe all", "probe eventful"):
            if row["seed"] in base and base[row["seed"]].get(name):
                row[f"{name}, relative"] = row[name] / base[row["seed"]][name]
    return rows
