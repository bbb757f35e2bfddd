"""Stage one at full speed: a small backbone on a token corpus (see `flat`).

The loop, schedule, checkpoints and selection are the trainer's; an update is one pass over a flat
batch, and losses are read every few updates only, so that the processor runs ahead of the GPU.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from waggle.core.seeds import derive
from waggle.scd.checkpoint import TrainError
from waggle.scd.flat import Flat
from waggle.scd.flats import Flats
from waggle.scd.forward import flat_nll, flat_states
from waggle.scd.model import Student
from waggle.scd.speller import Tokens
from waggle.scd.trainer import Plan, Trainer, Watch, nobody


def nll_of(model: Any, flat: Flat) -> Tensor:
    """Return the loss of every assistant token of a flat batch."""
    return flat_nll(model, flat, flat_states(model, flat))


class Sprint(Trainer):
    """Trains stage one on a token corpus."""

    def __init__(
        self, student: Student, plan: Plan, train: Tokens, held: Tokens, folder: Path, *,
        watch: Watch = nobody,
    ) -> None:  # fmt: skip
        super().__init__(student, None, plan, folder, watch=watch)
        run = plan.run
        self._flats = Flats(
            train, plan.seed, plan.stage.batch, mean=plan.mean, device=student.device
        )
        self._held = Flats(held, plan.seed, 1, mean=plan.mean, device=student.device)
        drawn = derive(plan.seed, "validation records")
        order = np.random.Generator(np.random.PCG64(drawn)).permutation(len(held))
        self._chosen = order[: run.validation_records]
        self._run = 0

    def _batch(self, update: int) -> Any:
        return self._flats.batch(update)

    def _update(self, update: int, batch: Any) -> dict[str, float]:
        """Run one flat batch and step; read the losses only now and then."""
        self._set_rates(update)
        self.student.model.train()
        self._optimizer.zero_grad(set_to_none=True)
        with self.student.arithmetic():
            nll = nll_of(self.student.model, batch)
            loss = (nll * batch.weights).sum() / batch.records
        torch.autograd.backward(loss)
        group = self._optimizer.param_groups[0]["params"]
        norm = torch.nn.utils.clip_grad_norm_(group, self.plan.stage.clip)
        self._optimizer.step()
        self._run += batch.tokens.shape[1]
        if update % self.plan.run.log_every:
            return {}
        return self._values(update, nll, loss, norm)

    def _values(self, update: int, nll: Tensor, loss: Tensor, norm: Tensor) -> dict[str, float]:
        """Read what is logged; this waits for the device."""
        nll_mean, decision, gradient = torch.stack(
            [nll.detach().mean(), loss.detach(), norm.detach()]
        ).tolist()
        if not math.isfinite(gradient):
            raise TrainError("the loss is not finite; lower the learning rate in the recipe")
        now = time.perf_counter()
        seconds = max(1e-9, now - self._read[1])
        speed = self._run / seconds
        done = max(1, update - self._read[0])
        self._read, self._run = (update, now), 0
        return {
            "nll": nll_mean, "decision": decision, "gradient.backbone": gradient,
            "seconds": seconds / done, "tokens_per_second": speed,
        }  # fmt: skip

    def _measure(self) -> tuple[float, float]:
        """Sum validation losses over passes of the size that is trained."""
        self.student.model.eval()
        total = torch.zeros(2, dtype=torch.float64)
        size = self.plan.stage.batch
        with torch.no_grad(), self.student.arithmetic():
            for start in range(0, len(self._chosen), size):
                nll = nll_of(self.student.model, self._held.of(self._chosen[start : start + size]))
                total += torch.tensor([float(nll.double().sum()), float(len(nll))])
        return float(total[0]), float(total[1])
