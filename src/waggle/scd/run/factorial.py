"""The four-arm factorial: all arms of several paired seeds from one warm start, in parallel.

Arms of one seed share warm start, batches, orbit elements and dropout; they differ only in the
weights of the losses. Records are encoded once, before the arms start. A small backbone leaves most
of a GPU idle, so arms run in parallel (see `workers`). Each arm is diagnosed in the process that
trained it, and its result is stored beside it. An arm with a result keeps its law and selected
weights; its checkpoints are removed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from waggle.corpus.store import Store
from waggle.scd.config import ARMS, Arm, Recipe
from waggle.scd.diagnose import law as diagnosis
from waggle.scd.files import LAW, read_json, write_json
from waggle.scd.model import Student, free_memory, tokenizer_of
from waggle.scd.run.stages import BEGAN_WITH, WARM_START, Stages, warm_start_digest
from waggle.scd.run.workers import student_of
from waggle.scd.train import checkpoint
from waggle.scd.train.distributed import Processes

NUMBERS = "diagnosis.json"
"""File with the numbers of an arm, beside its law."""
RESULT = "findings.json"
"""File with the same numbers and their units."""
ASKED = "asked for"
"""Key of a result: the number of views and transitions it measured."""
TRANSITIONS = 2_376
"""Number of transitions that probes are fitted and evaluated on."""


class Cell(NamedTuple):
    """One arm of one seed."""

    recipe: Recipe
    corpus: Path
    out: Path
    start: Path
    """Folder of the warm start that all arms share."""
    seed: int
    arm: Arm
    views: int
    native: int
    transitions: int

    @property
    def name(self) -> str:
        """Name of the cell in messages."""
        return f"seed {self.seed} {self.arm}"

    @property
    def result(self) -> Path:
        """Path of its result."""
        return self.out / f"seed-{self.seed}" / self.arm / RESULT

    @property
    def warm(self) -> Path:
        """The law that all arms start from."""
        return self.start / LAW

    def asked(self) -> dict[str, int]:
        """Return the measured sizes; a stored result with other sizes does not count."""
        return {"views": self.views, "native": self.native, "transitions": self.transitions}

    def kept(self) -> dict[str, Any] | None:
        """Return its stored result, or None if it is missing or has other sizes or warm start."""
        found = read_json(self.result)
        if found is None or found.get(ASKED) != self.asked():
            return None
        began = found.get(BEGAN_WITH)
        return found if not began or began == warm_start_digest(self.start) else None

    def tidy(self) -> None:
        """Remove its checkpoints, which only an unfinished arm needs."""
        checkpoint.discard(self.result.parent, checkpoint.FOLDER)

    def stages(self, student: Student | None = None) -> Stages:
        """Return the stages of this cell's seed, for this process alone."""
        return Stages(
            self.recipe, self.corpus, self.out, self.seed, start=self.start, student=student,
            processes=Processes(alone=True),
        )  # fmt: skip

    def findings(self, workers: int = 1) -> diagnosis.Findings:
        """Return the diagnosis settings of this cell; all cells share views and encoded records."""
        return diagnosis.Findings(
            Store(self.corpus), views=self.views, native=self.native, seed=0,
            kept=self.out / "prepared", workers=workers,
        )  # fmt: skip

    def run(self) -> dict[str, Any]:
        """Train the arm; measure decisions, deployed structure, fresh probe and training heads."""
        compiled = self.recipe.run.compile_arms
        cell = self if compiled else self._replace(recipe=self.recipe.uncompiled())
        student = student_of(cell.recipe)
        law = cell.stages(student).arm(cell.arm)
        checkpoint.restore_best(student.trainable(), law.parent)
        free_memory()  # for the engine that measures, and for other processes
        findings = cell.findings()
        result: dict[str, Any] = {
            "arm": cell.arm, "seed": cell.seed, ASKED: cell.asked(),
            "warm start": f"{cell.start.parent.name}: {diagnosis.trained_by(cell.warm)}",
            BEGAN_WITH: warm_start_digest(cell.start),
        }  # fmt: skip
        representation = diagnosis.diagnose_folder(findings, law, cell.transitions, student)
        free_memory()
        result |= diagnosis.diagnose_law(findings, diagnosis.law_of(law), cell.recipe.order)
        result = diagnosis.joined(result, representation)
        free_memory()
        numbers = json.dumps(diagnosis.numbers(result), indent=1)
        (law.parent / NUMBERS).write_text(numbers, encoding="utf-8")
        write_json(cell.result, result)
        cell.tidy()
        return result


def prepare(planned: Sequence[Cell], workers: int = 1) -> None:
    """Encode the data of all cells once: batches of every seed, held-out views, transitions."""
    first = planned[0]
    findings = first.findings(workers)
    with findings.encoded(first.recipe, tokenizer_of(first.recipe)) as encoded:
        for seed in dict.fromkeys(cell.seed for cell in planned):
            first._replace(seed=seed).stages().stage_two_data(encoded)
        encoded.decisions("test", first.views)
        for split in ("probe", "test", "validation"):
            encoded.transitions(split, first.transitions)
    if first.native:
        findings.natives()


def cells(
    recipe: Recipe, corpus: Path, out: Path, seeds: Sequence[int], *, views: int, native: int,
    transitions: int = TRANSITIONS, start: Path | None = None,
) -> list[Cell]:  # fmt: skip
    """Return every arm of every seed, all from `start`, by default the first seed's warm start."""
    shared = start or out / f"seed-{seeds[0]}" / WARM_START
    return [
        Cell(recipe, corpus, out, shared, seed, arm, views, native, transitions)
        for seed in seeds
        for arm in ARMS
    ]


def write_arm(folder: Path, result: dict[str, Any]) -> None:
    """Write a result to ARM-SEED.json, the file that reports read."""
    write_json(folder / f"{result['arm']}-{result['seed']}.json", result)


def relative(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return results by seed and arm, with probe losses relative to those of Decision only."""
    rows = sorted(results, key=lambda r: (r["seed"], ARMS.index(r["arm"])))
    base = {row["seed"]: row for row in rows if row["arm"] == "decision"}
    for row in rows:
        for name in ("probe all", "probe eventful"):
            if row["seed"] in base and base[row["seed"]].get(name):
                row[f"{name}, relative"] = row[name] / base[row["seed"]][name]
    return rows
