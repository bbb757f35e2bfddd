"""One training process or several: shares of an update, summed gradients, gathered results.

`accelerate launch` or `launch`, beside this module, starts several processes. Each runs its share
of every update, and gradients are summed, so the update is that of one process up to rounding:
losses are sums over records, divided by the number of records of the whole update. All processes
hold the same weights; the first alone writes files. One that dies takes the others with it, and the
same command goes on from the newest checkpoint, with any number of processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from waggle.process_pool import Run

PATIENCE = timedelta(days=1)
"""How long processes wait for one another: the first may make a corpus meanwhile. One that died is
noticed at once."""


class Processes:
    """The group of training processes; with one process every method costs nothing."""

    def __init__(self, *, alone: bool = False) -> None:
        """Join the group that this process was started in; `alone` leaves it out."""
        self.count = 1 if alone else int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = 0 if alone else int(os.environ.get("RANK", "0"))
        self.device: str | None = None
        if self.count > 1:
            accelerate: Any = import_module("accelerate")
            state = accelerate.PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)
            self.device = str(state.device)

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
        total: dict[str, float] = {}
        for part in self.gather({name: float(value) for name, value in sums.items()}):
            for name, value in part.items():
                total[name] = total.get(name, 0.0) + value
        return total

    def gather(self, own: Any) -> list[Any]:
        """Return what every process gives, in their order."""
        if self.count == 1:
            return [own]
        gathered: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(gathered, own)
        return gathered

    def agree(self, number: float) -> float:
        """Return the number of the first process, such as the time by its clock."""
        return float(self.gather(number)[0])

    def shared(self, run: Run) -> Run:
        """Return a map that does a share of the items here; every process gets all results."""
        if self.count == 1:
            return run

        def mapped(function: Any, items: Iterable[Any]) -> Iterator[Any]:
            everything = list(items)
            own = list(run(function, everything[self.rank :: self.count]))
            found: list[Any] = [None] * len(everything)
            for rank, part in enumerate(self.gather(own)):
                found[rank :: self.count] = part
            return iter(found)

        return mapped

    @contextmanager
    def first(self) -> Iterator[None]:
        """Let the first process do something, and the others then find it done."""
        if not self.main:
            self.wait()
        yield
        if self.main:
            self.wait()

    def wait(self) -> None:
        """Wait for the other processes."""
        if self.count > 1:
            torch.distributed.barrier()
