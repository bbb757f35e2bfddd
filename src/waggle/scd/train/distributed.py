"""Training in one process or several: shares of updates, summed gradients, gathered results.

`accelerate launch`, or the module `launch` beside this one, starts several processes. Each runs its
share of every update, and gradients are summed, so the update is that of one process up to
rounding: losses are sums over records, divided by the number of records in the whole update. All
processes hold the same weights; only the first writes files. If one dies, all end, and the same
command resumes from the newest checkpoint, with any number of processes.
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
"""Timeout of processes that wait for one another: the first may be building a corpus. A process
that dies is noticed at once."""


class Processes:
    """The group of training processes; with one process every method costs nothing."""

    def __init__(self, *, alone: bool = False) -> None:
        """Join the process group that this process was started in, unless `alone`."""
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
        """Return the values of all processes, in rank order."""
        if self.count == 1:
            return [own]
        gathered: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(gathered, own)
        return gathered

    def agree(self, number: float) -> float:
        """Return the first process's number, such as the time by its clock."""
        return float(self.gather(number)[0])

    def shared(self, run: Run) -> Run:
        """Return a `map` that splits items over processes; every process gets all results.

        Results are gathered when the first of them is read, which all processes do in one order.
        """
        if self.count == 1:
            return run

        def mapped(function: Any, items: Iterable[Any]) -> Iterator[Any]:
            everything = list(items)
            own = run(function, everything[self.rank :: self.count])  # started before it is read

            def results() -> Iterator[Any]:
                found: list[Any] = [None] * len(everything)
                for rank, part in enumerate(self.gather(list(own))):
                    found[rank :: self.count] = part
                yield from found

            return results()

        return mapped

    @contextmanager
    def first(self) -> Iterator[None]:
        """Run the block in the first process, and only then in the others."""
        if not self.main:
            self.wait()
        yield
        if self.main:
            self.wait()

    def wait(self) -> None:
        """Wait for the other processes."""
        if self.count > 1:
            torch.distributed.barrier()
