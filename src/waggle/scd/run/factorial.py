"""The four-arm factorial: all arms of several paired seeds from one warm start, several at once.

Arms of one seed share warm start, batches, orbit elements and dropout; they differ in the weights
of the losses alone. Batches are encoded once, before the arms start (`prepare`). Small backbones
leave most of a GPU idle, so arms run side by side (see `team`). Each arm is diagnosed where it was
trained, beside the training of others; results are kept beside it. Once one is there, law and
selected weights stay, the checkpoints to resume from go.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from waggle.core.seeds import Split
from waggle.scd.config import ARMS, Arm, Recipe
from waggle.scd.run import starts
from waggle.scd.run import workers as team

if TYPE_CHECKING:
    from waggle.scd.diagnose.findings import Findings
    from waggle.scd.model import Student
    from waggle.scd.run.stages import Stages

RESULT = "diagnosis.json"
"""The numbers of an arm, beside its law."""
WHOLE = "findings.json"
"""The same with its units."""
ASKED = "asked for"
"""How much a result measured."""
TRANSITIONS = 2_376
"""Transitions that probes are fitted and evaluated on."""


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
        """What a person calls it."""
        return f"seed {self.seed} {self.arm}"

    @property
    def result(self) -> Path:
        """Where its result is kept."""
        return self.out / f"seed-{self.seed}" / self.arm / WHOLE

    @property
    def warm(self) -> Path:
        """The law that all arms start from."""
        return self.start / "law"

    def asked(self) -> dict[str, int]:
        """Say how much is measured; a result that measured something else does not count."""
        return {"views": self.views, "native": self.native, "transitions": self.transitions}

    def kept(self) -> dict[str, Any] | None:
        """Return its result if it is there, and not that of an arm with another warm start."""
        found = team.found(self.result)
        if found is None or found.get(ASKED) != self.asked():
            return None
        began = found.get(starts.BEGUN)
        return found if not began or began == starts.name(self.start) else None

    def run(self) -> dict[str, Any]:
        """Train it and measure decisions, deployed structure, fresh probe and training heads."""
        return _run(self)

    def tidy(self) -> None:
        """Remove the checkpoints it would have been resumed from."""
        from waggle.scd.train import checkpoint

        checkpoint.discard(self.result.parent, checkpoint.FOLDER)

    def stages(self, student: Student | None = None) -> Stages:
        """Return the stages of this cell's seed."""
        from waggle.scd.run.stages import Stages

        return Stages(
            self.recipe, self.corpus, self.out, self.seed, start=self.start, student=student
        )

    def findings(self, workers: int = 1) -> Findings:
        """Return what is measured of this cell; views and encoded records are shared by all."""
        from waggle.corpus.store import Store
        from waggle.scd.diagnose.findings import Findings

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


def _run(cell: Cell) -> dict[str, Any]:
    from waggle.scd.diagnose.diagnose import law_of
    from waggle.scd.diagnose.findings import (
        diagnose_folder,
        diagnose_law,
        joined,
        numbers,
        told,
        uncompiled,
    )
    from waggle.scd.model import collect
    from waggle.scd.train import checkpoint

    if not cell.recipe.run.compile_arms:
        cell = cell._replace(recipe=uncompiled(cell.recipe))
    if (kept := cell.kept()) is not None:
        return kept
    student = team.student_of(cell.recipe)
    law = cell.stages(student).arm(cell.arm)
    best = law.parent / starts.WEIGHTS
    checkpoint.restore(student.trainable(), checkpoint.read_tensors(best), best)
    collect()  # what was held would count against the engine that measures, and against others
    findings = cell.findings()
    named: dict[str, Any] = {"arm": cell.arm, "seed": cell.seed, ASKED: cell.asked()}
    named["warm start"] = f"{cell.start.parent.name}: {told(cell.warm)}"
    named[starts.BEGUN] = starts.name(cell.start)
    found = diagnose_folder(findings, law, cell.transitions, student)
    collect()
    result = joined(named | diagnose_law(findings, law_of(law), cell.recipe.order), found)
    collect()
    (law.parent / RESULT).write_text(json.dumps(numbers(result), indent=1), encoding="utf-8")
    team.keep(cell.result, result)
    cell.tidy()
    return result


def cells(
    recipe: Recipe, corpus: Path, out: Path, seeds: Sequence[int], *, views: int, native: int,
    transitions: int = TRANSITIONS, start: Path | None = None,
) -> list[Cell]:  # fmt: skip
    """Return every arm of every seed; all begin with one warm start, or the first seed's own."""
    shared = start or out / f"seed-{seeds[0]}" / "warm-start"
    return [
        Cell(recipe, corpus, out, shared, seed, arm, views, native, transitions)
        for seed in seeds
        for arm in ARMS
    ]


def write_arm(folder: Path, result: dict[str, Any]) -> None:
    """Write a result as the file that reports read: ARM-SEED.json."""
    team.keep(folder / f"{result['arm']}-{result['seed']}.json", result)


def relative(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort results by seed and arm, with probe losses divided by those of Decision only."""
    rows = sorted(results, key=lambda r: (r["seed"], ARMS.index(r["arm"])))
    base = {row["seed"]: row for row in rows if row["arm"] == "decision"}
    for row in rows:
        for name in ("probe all", "probe eventful"):
            if row["seed"] in base and base[row["seed"]].get(name):
                row[f"{name}, relative"] = row[name] / base[row["seed"]][name]
    return rows
