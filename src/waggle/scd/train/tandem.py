"""Stage two at full speed: decisions, images and transitions of an update in one flat pass.

The loop, schedule, checkpoints and selection are the trainer's; batches are cut out of arrays that
were encoded ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from waggle.scd.data.arrays import Rows
from waggle.scd.data.chains import in_order
from waggle.scd.data.lessons import Lessons
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.train.distributed import Processes
from waggle.scd.train.flat_trainer import FlatTrainer
from waggle.scd.train.passes import Result, Totals, Weights, scd_loss
from waggle.scd.train.scenes import Scene, cut, held_out, passed, scene
from waggle.scd.train.trainer import Plan, Watch, nobody


class Tandem(FlatTrainer[Scene]):
    """Trains one arm of stage two on flat passes."""

    def __init__(
        self, student: Student, heads: Heads | None, plan: Plan, lessons: Lessons, held: Rows,
        folder: Path, *, watch: Watch = nobody, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        super().__init__(student, heads, plan, folder, watch=watch, processes=processes)
        self._lessons = lessons
        self._tree = plan.run.tree and not self._replays
        # Neighbours in the order of their tokens share most.
        order = in_order(held.ids, held.starts, held.fed) if self._tree else np.arange(len(held))
        self._held = held.take(order[self._processes.rank :: self._processes.count])

    def _cut(self, update: int) -> Iterator[Scene]:
        mine = self._lessons.lesson(update, self._processes.rank, self._processes.count)
        for part in cut(mine, self.plan.run.tokens_per_pass):
            yield scene(part, self.student.device, fixed=self._replays, tree=self._tree)

    def _held_out(self) -> Iterator[Scene]:
        for part in held_out(self._held, self.plan.run.tokens_per_pass):
            yield scene(part, self.student.device, tree=self._tree)

    def _loss(self, shown: Scene, weights: Weights, *, heads: bool = True) -> Result:
        stage: Any = self.plan.stage
        totals = Totals(stage.batch, stage.transition_batch)
        found = passed(self.student, shown.flat)
        known = self._heads if heads else None
        return scd_loss(known, found, shown.told, totals, weights, float(shown.flat.read))
