"""One training process or several: shares of an update, summed gradients, summed metrics.

`accelerate launch` (or torchrun) starts several processes. Each runs its share of every update, and
gradients are summed, so the update is that of one process up to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor


class Processes:
    """The group of training processes; with one process every method costs nothing."""

    def __init__(self) -> None:
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.device: str | None = None
        if self.count > 1:
            accelerate: Any = import_module("accelerate")
            self.device = str(accelerate.PartialState().device)

    @property
    def main(self) -> bool:
        """Whether this process writes files."""
        return self.rank == 0

    def add_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Sum gradients over processes; a missing gradient counts as zero."""
        if self.count == 1:
            return
        for p in parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            torch.distributed.all_reduce(p.grad)

    def add(self, sums: Mapping[str, float | Tensor]) -> dict[str, float]:
        """Sum named numbers over processes."""
        own = {name: float(value) for name, value in sums.items()}
        if self.count == 1:
            return own
        gathered: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(gathered, own)
        total: dict[str, float] = {}
        for part in gathered:
            for name, value in part.items():
                total[name] = total.get(name, 0.0) + value
        return total

    def wait(self) -> None:
        """Wait for the other processes."""
        if self.count > 1:
            torch.distributed.barrier()
