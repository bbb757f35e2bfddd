"""The optimizer of a stage ("Optimization"): AdamW, learning-rate schedule, gradient clipping.

Backbone and heads are separate parameter groups, each with its own learning rate and clipping.
Invariant: the learning rate of an update depends on the schedule alone. Under CUDA graphs, every
number that changes between updates is a tensor that the graph reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from waggle.scd.config import Stage, StageTwo
from waggle.scd.heads import Heads
from waggle.scd.train.cuda_graph import Scalars
from waggle.scd.train.distributed import Processes
from waggle.scd.train.objective import Sums

_OWN = ("lr", "fused", "capturable", "foreach")
"""Optimizer options that a resumed run sets itself instead of reading from the checkpoint."""


class Optimizer:
    """AdamW over the trained weights and, in stage two, the heads."""

    def __init__(
        self,
        trained: Mapping[str, torch.nn.Parameter],
        heads: Heads | None,
        stage: Stage,
        scalars: Scalars,
    ) -> None:
        self._stage, self._scalars = stage, scalars
        groups: list[dict[str, Any]] = [{"params": list(trained.values()), "base": stage.rate}]
        if heads is not None and isinstance(stage, StageTwo):
            groups.append({"params": list(heads.parameters()), "base": stage.head_rate})
        for group in groups:
            group["lr"] = scalars.set(None, group["base"])
        self._optimizer = torch.optim.AdamW(
            groups, weight_decay=stage.weight_decay, capturable=scalars.replayed,
            fused=torch.device(scalars.device).type == "cuda",
        )  # fmt: skip

    def set_rates(self, update: int, seconds: float) -> None:
        """Set the learning rates of an update that starts `seconds` into the stage."""
        stage = self._stage
        share = None if stage.seconds is None else seconds / stage.seconds
        factor = rate_factor(stage, update, share)
        for group in self._optimizer.param_groups:
            group["lr"] = self._scalars.set(group["lr"], group["base"] * factor)

    def clear(self) -> None:
        """Free all gradients."""
        self._optimizer.zero_grad(set_to_none=True)

    def step(self, processes: Processes) -> Sums:
        """Sum gradients over processes, clip each group, take a step; return the norms."""
        norms: Sums = {}
        for name, group in zip(("backbone", "heads"), self._optimizer.param_groups, strict=False):
            processes.add_gradients(group["params"])
            norm = torch.nn.utils.clip_grad_norm_(group["params"], self._stage.clip)
            norms[f"gradient.{name}"] = norm.detach()
        self._optimizer.step()
        return norms

    def state(self) -> dict[str, Any]:
        """Return the optimizer state for a checkpoint."""
        return self._optimizer.state_dict()

    def resume(self, state: dict[str, Any]) -> None:
        """Restore the optimizer state of a checkpoint."""
        for saved, own in zip(state["param_groups"], self._optimizer.param_groups, strict=True):
            saved.update({name: own[name] for name in _OWN})
        self._optimizer.load_state_dict(state)


def rate_factor(stage: Stage, update: int, share: float | None = None) -> float:
    """Return the factor on learning rates: linear warm-up, then constant or cosine.

    Args:
        stage: the schedule.
        update: the update, from 0.
        share: the fraction of a time budget that is spent. The fraction of updates counts instead
            if it is larger or if there is no budget, so the decay is complete when the stage ends.
    """
    if update < stage.rate_warm_up:
        return (update + 1) / stage.rate_warm_up
    if stage.decay == "constant":
        return 1.0
    done = (update - stage.rate_warm_up) / max(1, stage.updates - stage.rate_warm_up)
    spent = done if share is None else max(done, share)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, spent)))
