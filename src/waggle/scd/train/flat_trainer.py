"""What both stages share on flat passes: batches cut ahead, passes replayed where shapes repeat."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from waggle.scd.forward.flat import Flat
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.train.checkpoint import Progress
from waggle.scd.train.cuda_graph import Captured
from waggle.scd.train.distributed import Processes
from waggle.scd.train.passes import Result, Sums, Weights, add
from waggle.scd.train.scenes import Scene
from waggle.scd.train.trainer import Plan, Trainer, Watch, nobody

P = TypeVar("P", Flat, Scene)


class FlatTrainer(Trainer, Generic[P]):
    """Trains on flat passes; what they are and what they cost is left to the stages."""

    def __init__(
        self, student: Student, heads: Heads | None, plan: Plan, folder: Path, *,
        watch: Watch = nobody, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        super().__init__(student, heads, plan, folder, watch=watch, processes=processes)
        self._captured: Captured[P] | None = None
        self._warned = False
        if self._replays:
            self._captured = Captured(lambda shown: self._work([shown]))

    def train(self, until: int | None = None) -> Progress:
        """Train as any trainer does, then give the memory of recorded updates back."""
        try:
            return super().train(until)
        finally:
            if self._captured is not None:
                self._captured.forget()
                self._descent.forget()

    def _cut(self, update: int) -> Iterator[P]:
        """Cut this process's share of an update into passes on the device."""
        raise NotImplementedError

    def _held_out(self) -> Iterator[P]:
        """Cut this process's share of the validation records into passes on the device."""
        raise NotImplementedError

    def _loss(self, shown: P, weights: Weights, *, heads: bool = True) -> Result:
        """Run a pass; without heads only decisions count, one by one."""
        raise NotImplementedError

    def _batch(self, update: int) -> Any:
        if self._captured is None:
            return list(self._cut(update))
        with self._captured.lock:
            return list(self._cut(update))

    def _passes(self, batch: Any, weights: Weights) -> Iterator[Result]:
        for shown in batch:
            with self.student.arithmetic():
                result = self._loss(shown, weights)
            yield result

    def _done(self, batch: Any) -> Sums:
        """Do an update; one that is a single pass is replayed if its shape was met before."""
        if self._captured is None or len(batch) != 1:
            self._warn(batch)
            return self._work(batch)
        return {**self._captured(batch[0]), **counts(batch[0])}

    def _warn(self, batch: Any) -> None:
        """Say once that updates are in vain asked to be recorded: a user sees nothing but time."""
        if self._captured is None or self._warned:
            return
        self._warned = True
        read = sum(int(counts(shown)["tokens.read"]) for shown in batch)
        warnings.warn(
            f"an update of {len(batch)} passes is not recorded, which makes it slower: raise "
            f"tokens_per_pass in [run] above its {read:,} tokens, or set capture = false",
            stacklevel=3,
        )

    def _measure(self) -> tuple[float, float]:
        self.student.model.eval()
        sums: Sums = {}
        weights = Weights(0.0, 0.0, 1.0, 0.0, self.plan.mean)
        with torch.no_grad(), self.student.arithmetic():
            for shown in self._held_out():
                add(sums, self._loss(shown, weights, heads=False).sums)
        totals = self._processes.add(sums)
        return totals["nll"], totals["nll.tokens"]


def counts(shown: Flat | Scene) -> Sums:
    """Return what a pass costs, which no replay can know."""
    flat = shown if isinstance(shown, Flat) else shown.flat
    return {
        "passes": 1.0, "tokens.read": float(flat.read), "tokens.run": float(flat.run),
        "slots": float(flat.run), "slots.padding": float(flat.run - flat.filled),
    }  # fmt: skip
