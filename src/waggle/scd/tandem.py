"""Stage two at full speed: decisions, images and transitions of an update in one flat pass.

For small backbones with short prompts (`run.flat`). The loop, schedule, checkpoints and selection
are the trainer's; batches are cut out of arrays that were encoded ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from waggle.scd.heads import Heads
from waggle.scd.lessons import Lessons
from waggle.scd.model import Student
from waggle.scd.passes import Result, Sums, Totals, Weights, add, scd_loss
from waggle.scd.processes import Processes
from waggle.scd.rows import Rows
from waggle.scd.scenes import cut, held_out, passed, scene
from waggle.scd.trainer import Plan, Trainer, Watch, nobody


class Tandem(Trainer):
    """Trains one arm of stage two on flat passes."""

    def __init__(
        self, student: Student, heads: Heads, plan: Plan, lessons: Lessons, held: Rows,
        folder: Path, *, watch: Watch = nobody, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        super().__init__(student, heads, plan, folder, watch=watch, processes=processes)
        self._lessons, self._held = lessons, held

    def _batch(self, update: int) -> Any:
        mine = self._lessons.lesson(update, self._processes.rank, self._processes.count)
        budget, device = self.plan.run.tokens_per_pass, self.student.device
        return [scene(part, device) for part in cut(mine, budget)]

    def _passes(self, batch: Any, weights: Weights) -> Iterator[Result]:
        stage: Any = self.plan.stage
        totals = Totals(stage.batch, stage.transition_batch)
        with self.student.arithmetic():
            for shown in batch:
                found = passed(self.student, shown)
                yield scd_loss(self._heads, found, shown.told, totals, weights, shown.read)

    def _measure(self) -> tuple[float, float]:
        self.student.model.eval()
        sums: Sums = {}
        weights = Weights(0.0, 0.0, 1.0, 0.0, self.plan.mean)
        share = self._held.take(torch.arange(len(self._held)).numpy()[self._processes.rank ::
                                self._processes.count])  # fmt: skip
        with torch.no_grad(), self.student.arithmetic():
            for part in held_out(share, self.plan.run.tokens_per_pass):
                shown = scene(part, self.student.device)
                found = passed(self.student, shown)
                add(sums, scd_loss(None, found, shown.told, Totals(1, 1), weights, 0.0).sums)
        totals = self._processes.add(sums)
        return totals["nll"], totals["nll.tokens"]
