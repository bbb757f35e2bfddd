"""The four-arm factorial: all arms of several paired seeds from one warm start, several at once.

Arms of one seed share warm start, batches, orbit elements and dropout; they differ in the weights
of the losses alone. Batches are encoded once, before the arms start (`prepare`). Small backbones
leave most of a GPU idle, so arms run side by side in processes, each of which builds its backbone
once and trains one arm after another with it. Each arm is diagnosed where it was trained; results
are kept beside it, and a result that is there is not made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from waggle.core.seeds import Split
from waggle.crew import crew
from waggle.scd.config import ARMS, Arm, Recipe

if TYPE_CHECKING:
    from waggle.scd.findings import Findings
    from waggle.scd.model import Student
    from waggle.scd.stages import Stages

RESULT = "diagnosis.json"
"""The numbers of an arm, beside its law."""
WHOLE = "findings.json"
"""The same with its units."""
TRANSITIONS = 2_376
"""Transitions that probes are fitted and evaluated on."""


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

    def stages(self, student: Student | None = None) -> Stages:
        """Return the stages of this cell's seed."""
        from waggle.scd.stages import Stages

        return Stages(
            self.recipe, self.corpus, self.out, self.seed, start=self.start, student=student
        )

    def findings(self, workers: int = 1) -> Findings:
        """Return what is measured of this cell; views and encoded records are shared by all."""
        from waggle.corpus.store import Store
        from waggle.scd.findings import Findings

        return Findings(
            Store(self.corpus), views=self.views, native=self.native, seed=0,
            evaluation_seed=Split.EVALUATION.value.start, kept=self.out / "prepared",
            workers=workers,
        )  # fmt: skip


def prepare(planned: Sequence[Cell], workers: int = 1) -> None:
    """Encode what all cells read, once: batches of every seed, held-out views, transitions."""
    from waggle.scd.model import tokenizer_of

    first = planned[0]
    findings = first.findings(workers)
    with findings.prepared(first.recipe, tokenizer_of(first.recipe)) as prepared:
        for seed in dict.fromkeys(cell.seed for cell in planned):
            first._replace(seed=seed).stages().lessons(prepared)
        prepared.decisions("test", first.views)
        for split in ("probe", "test", "validation"):
            prepared.transitions(split, first.transitions)
    if first.native:
        findings.natives()


_STUDENTS: dict[str, Student] = {}
"""The backbone of this process, by recipe."""


def _student(recipe: Recipe) -> Student:
    from waggle.scd.model import Student

    name = recipe.model_dump_json()
    if name not in _STUDENTS:
        _STUDENTS.clear()
        _STUDENTS[name] = Student(recipe, 0)
    return _STUDENTS[name]


def run_cell(cell: Cell) -> dict[str, Any]:
    """Train one arm and measure decisions, deployed structure, fresh probe and training heads."""
    from waggle.scd.checkpoint import read_tensors
    from waggle.scd.diagnose import law_of
    from waggle.scd.findings import diagnose_folder, diagnose_law, joined, numbers, uncompiled
    from waggle.scd.model import collect
    from waggle.scd.trainer import restore

    # A process trains a few arms of some seconds each: compiling would cost more than it saves.
    cell = cell._replace(recipe=uncompiled(cell.recipe))
    path = cell.out / f"seed-{cell.seed}" / cell.arm / WHOLE
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return kept
    student = _student(cell.recipe)
    law = cell.stages(student).arm(cell.arm)
    best = law.parent / "best" / "trainable.safetensors"
    restore(student.trainable(), read_tensors(best), best)
    findings, named = cell.findings(), {"arm": cell.arm, "seed": cell.seed}
    found = diagnose_folder(findings, law, cell.transitions, student)
    result = joined(named | diagnose_law(findings, law_of(law), cell.recipe.order), found)
    collect()
    (law.parent / RESULT).write_text(json.dumps(numbers(result), indent=1), encoding="utf-8")
    _write(path, result)
    return result


def _write(path: Path, result: dict[str, Any]) -> None:
    """Write a result under its name once it is whole."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_text(json.dumps(result), encoding="utf-8")
    os.replace(partial, path)


def _open(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def run_all(cells: Sequence[Cell], jobs: int) -> Iterator[dict[str, Any]]:
    """Run cells, so many at once; yield results as they come."""
    if jobs <= 1:
        yield from map(run_cell, cells)
        return
    with crew(jobs, _open, max(1, (os.cpu_count() or 1) // jobs)) as pool:
        for done in as_completed([pool.submit(run_cell, cell) for cell in cells]):
            yield done.result()


def cells(
    recipe: Recipe, corpus: Path, out: Path, seeds: Sequence[int], *, views: int, native: int,
    transitions: int = TRANSITIONS,
) -> list[Cell]:  # fmt: skip
    """Return every arm of every seed; all start from the first seed's warm start."""
    return [
        Cell(recipe, corpus, out, seeds[0], seed, arm, views, native, transitions)
        for seed in seeds
        for arm in ARMS
    ]


def write_arms(folder: Path, results: Sequence[dict[str, Any]]) -> None:
    """Write results as the files that reports read, one per law: ARM-SEED.json."""
    for result in results:
        _write(folder / f"{result['arm']}-{result['seed']}.json", result)


def relative(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort results by seed and arm, with probe losses divided by those of Decision only."""
    rows = sorted(results, key=lambda r: (r["seed"], ARMS.index(r["arm"])))
    base = {row["seed"]: row for row in rows if row["arm"] == "decision"}
    for row in rows:
        for name in ("probe all", "probe eventful"):
            if row["seed"] in base and base[row["seed"]].get(name):
                row[f"{name}, relative"] = row[name] / base[row["seed"]][name]
    return rows
