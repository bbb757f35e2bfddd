"""Stage one at full speed: decision records of a token corpus, end to end in flat passes.

The loop, schedule, checkpoints and selection are the trainer's; an update is one pass unless it
exceeds the token budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from waggle.core.seeds import derive
from waggle.scd.data.flats import Flats
from waggle.scd.data.speller import Tokens
from waggle.scd.forward.flat import Flat
from waggle.scd.forward.forward import flat_nll, flat_states
from waggle.scd.model import Student
from waggle.scd.train.distributed import Processes
from waggle.scd.train.flat_trainer import FlatTrainer, counts
from waggle.scd.train.passes import Result, Weights
from waggle.scd.train.trainer import Plan, Watch, nobody


def nll_of(model: Any, flat: Flat) -> Tensor:
    """Return the loss of every assistant token of a flat batch."""
    return flat_nll(model, flat, flat_states(model, flat))


class Sprint(FlatTrainer[Flat]):
    """Trains stage one on a token corpus."""

    def __init__(
        self, student: Student, plan: Plan, train: Tokens, held: Tokens, folder: Path, *,
        watch: Watch = nobody, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        super().__init__(student, None, plan, folder, watch=watch, processes=processes)
        how: dict[str, Any] = {"mean": plan.mean, "device": student.device}
        self._flats = Flats(train, plan.seed, plan.stage.batch, fixed=self._replays, **how)
        self._held = Flats(held, plan.seed, 1, **how)
        drawn = derive(plan.seed, "validation records")
        order = np.random.Generator(np.random.PCG64(drawn)).permutation(len(held))
        self._chosen = order[: plan.run.validation_records]

    def _cut(self, update: int) -> Iterator[Flat]:
        mine = self._flats.chosen(update)[self._processes.rank :: self._processes.count]
        yield from self._flats.passes(mine, self.plan.run.tokens_per_pass)

    def _held_out(self) -> Iterator[Flat]:
        mine = self._chosen[self._processes.rank :: self._processes.count]
        yield from self._held.passes(mine, self.plan.run.tokens_per_pass)

    def _loss(self, shown: Flat, weights: Weights, *, heads: bool = True) -> Result:
        nll = nll_of(self.student.model, shown)
        loss = (nll * shown.weights).sum()
        known = shown.weights > 0
        sums = counts(shown) | {
            "pairs": float(shown.records),
            "decision": loss.detach(),
            "nll": (nll.detach() * known).sum(),
            "nll.tokens": known.sum(),
        }
        return Result(loss / self.plan.stage.batch, sums)
