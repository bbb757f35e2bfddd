"""The optimizer of a stage ("Optimization"): which weights move, at which rate, clipped how.

Backbone and heads are groups of their own, each with its rate and its gradient norm. Invariant: the
rate of an update depends on the schedule alone; where updates are replayed, whatever changes
between them is in tensors that a record can read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from waggle.scd.config import Stage, StageTwo
from waggle.scd.heads import Heads
from waggle.scd.train.distributed import Processes
from waggle.scd.train.passes import Sums

_OWN = ("lr", "fused", "capturable", "foreach")
"""How the optimizer runs is a run's own affair, whatever wrote a checkpoint."""


class Changing:
    """Numbers that change between updates: tensors where updates are replayed."""

    def __init__(self, device: str, *, replayed: bool) -> None:
        self.replayed = replayed
        self._device = device

    def make(self, value: float) -> Any:
        """Return a number that may change."""
        return torch.tensor(value, device=self._device) if self.replayed else value

    def set(self, known: Any, value: float) -> Any:
        """Change a number in place where it has one, and return it."""
        return known.fill_(value) if isinstance(known, torch.Tensor) else self.make(value)


class Descent:
    """Adam with decoupled weight decay over the trained weights and, in stage two, the heads."""

    def __init__(
        self,
        trained: Mapping[str, torch.nn.Parameter],
        heads: Heads | None,
        stage: Stage,
        device: str,
        changing: Changing,
    ) -> None:
        self._stage, self._changing = stage, changing
        groups: list[dict[str, Any]] = [{"params": list(trained.values()), "base": stage.rate}]
        if heads is not None and isinstance(stage, StageTwo):
            groups.append({"params": list(heads.parameters()), "base": stage.head_rate})
        for group in groups:
            group["lr"] = changing.make(group["base"])
        self._optimizer = torch.optim.AdamW(
            groups, weight_decay=stage.weight_decay, capturable=changing.replayed,
            fused=torch.device(device).type == "cuda",
        )  # fmt: skip

    def set_rates(self, update: int, seconds: float) -> None:
        """Set the rates of an update, so many seconds into the stage."""
        stage = self._stage
        share = None if stage.seconds is None else seconds / stage.seconds
        factor = rate_factor(stage, update, share)
        for group in self._optimizer.param_groups:
            group["lr"] = self._changing.set(group["lr"], group["base"] * factor)

    def forget(self) -> None:
        """Give all gradients back."""
        self._optimizer.zero_grad(set_to_none=True)

    def step(self, processes: Processes) -> Sums:
        """Add gradients up, clip backbone and heads apart, and step; return the norms."""
        norms: Sums = {}
        for name, group in zip(("backbone", "heads"), self._optimizer.param_groups, strict=False):
            processes.add_gradients(group["params"])
            norm = torch.nn.utils.clip_grad_norm_(group["params"], self._stage.clip)
            norms[f"gradient.{name}"] = norm.detach()
        self._optimizer.step()
        return norms

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return self._optimizer.state_dict()

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        for saved, own in zip(state["param_groups"], self._optimizer.param_groups, strict=True):
            saved.update({name: own[name] for name in _OWN})
        self._optimizer.load_state_dict(state)


def rate_factor(stage: Stage, update: int, share: float | None = None) -> float:
    """Return the factor on learning rates: linear warm-up, then constant or cosine.

    Args:
        stage: the schedule.
        update: the update, from 0.
        share: how much of a time budget is gone. The share of updates counts where there is none,
            or where it is the larger: the rate has fallen when the stage ends, whatever ends it.
    """
    if update < stage.rate_warm_up:
        return (update + 1) / stage.rate_warm_up
    if stage.decay == "constant":
        return 1.0
    done = (update - stage.rate_warm_up) / max(1, stage.updates - stage.rate_warm_up)
    gone = done if share is None else max(done, share)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, gone)))
