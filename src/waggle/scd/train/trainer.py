"""The training loop of both stages ("Optimization"): batches, passes, update, validate, save.

    Trainer(student, heads, plan, folder).train()

Every draw of update u is named by (seed, u): orbit elements, batches, dropout. So arms of one seed
meet the same records, and a run resumed at u goes on as if it had never stopped. Checkpoints are
selected by minimum validation decision loss alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from waggle.core.seeds import derive
from waggle.scd import losses
from waggle.scd.config import Run, Stage, StageTwo
from waggle.scd.data.records import Move, Pair
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.train import checkpoint, trackers
from waggle.scd.train.averages import averages, numbers
from waggle.scd.train.checkpoint import Checkpoints, Progress, TrainError
from waggle.scd.train.distributed import Processes
from waggle.scd.train.optimizer import Changing, Descent
from waggle.scd.train.passes import Record, Result, Sums, Totals, Weights, add, grouped, scd_pass

Watch = Callable[[int, int, Mapping[str, float]], None]
"""Called after every update with its number, how many there are, and its metrics."""


def nobody(_update: int, _updates: int, _values: Mapping[str, float]) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class Plan:
    """What a stage trains on, with which weights."""

    stage: Stage
    run: Run
    seed: int
    identity: Mapping[str, Any]
    """Settings that a checkpoint must share to be resumed from."""
    decisions: Callable[[int], list[Pair]] | None
    """Makes the decision records of an update; None where a trainer has batches of its own."""
    validation: Sequence[Pair]
    moves: Callable[[int], list[Move]] | None = None
    """Makes its transitions."""
    orbit: float = 0.0
    field: float = 0.0
    mean: bool = True
    name: str = "run"


class Batch(NamedTuple):
    """The records of one update."""

    pairs: list[Pair]
    moves: list[Move]


class Trainer:
    """Trains one stage of one arm."""

    def __init__(
        self, student: Student, heads: Heads | None, plan: Plan, folder: Path, *,
        watch: Watch = nobody, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        self.student, self.plan, self.folder, self._watch = student, plan, folder, watch
        self._processes = processes or Processes()
        self._heads = None if heads is None else heads.to(student.device)
        self._trained = student.trainable()
        on_cuda = torch.device(student.device).type == "cuda"
        self._replays = plan.run.capture and plan.run.flat and on_cuda and (
            self._processes.count == 1
        )  # fmt: skip
        self._changing = Changing(student.device, replayed=self._replays)
        self._factors: Weights | None = None
        self._descent = Descent(
            self._trained, self._heads, plan.stage, student.device, self._changing
        )
        self._checkpoints = Checkpoints(folder / checkpoint.FOLDER, plan.identity)
        self.progress = Progress(0, -1, math.inf)
        self._last: float | None = None
        self._read: tuple[int, float] = (0, time.perf_counter())
        self._tokens = 0.0

    def train(self, until: int | None = None) -> Progress:
        """Train from the newest checkpoint to the end, or to an update; return where it stands."""
        self._resume()
        last = min(self.plan.stage.updates, until or self.plan.stage.updates)
        self._read = (self.progress.update - 1, time.perf_counter())
        sinks = self._sinks()
        try:
            for update, values in self.steps(self.progress.update, last):
                self._tick(update + 1)
                final = update + 1 == last or self.finished
                if final or self._due(self.plan.run.evaluate_every):
                    values |= self._validate()
                if final or self._due(self.plan.run.save_every):
                    self._save()
                if values:
                    for sink in sinks:
                        sink.log(update, values)
                self._watch(update, self.plan.stage.updates, values)
                if final:
                    break
        finally:
            for sink in sinks:
                sink.close()
        return self.progress

    def steps(self, first: int, last: int) -> Iterator[tuple[int, dict[str, float]]]:
        """Do some updates without validating or saving; return what of each is logged."""
        for update, batch in self._batches(first, last):
            yield update, self._update(update, batch)

    def _due(self, every: int) -> bool:
        return self.progress.update % every == 0

    def _tick(self, done: int) -> None:
        """Count an update and the time since the last one; the first of a run may compile."""
        now = time.perf_counter()
        spent = 0.0 if self._last is None else now - self._last
        self._last = now
        seconds = self.progress.seconds + spent
        self.progress = self.progress._replace(update=done, seconds=seconds)

    @property
    def finished(self) -> bool:
        """Whether all updates are done, or the time is up."""
        stage, progress = self.plan.stage, self.progress
        spent = stage.seconds is not None and progress.seconds >= stage.seconds
        return spent or progress.update >= stage.updates

    def _sinks(self) -> list[trackers.Tracker]:
        if not self._processes.main:
            return []
        run = self.plan.run
        return trackers.make(run.tracker, self.folder, self.plan.name, self.progress.update)

    def _batches(self, first: int, last: int) -> Iterator[tuple[int, Batch]]:
        """Make the next batch in a thread while this one is run."""
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._batch, first) if first < last else None
            for update in range(first, last):
                assert coming is not None
                batch = coming.result()
                if update + 1 < last:
                    coming = pool.submit(self._batch, update + 1)
                yield update, batch

    def _batch(self, update: int) -> Batch:
        moves = self.plan.moves
        assert self.plan.decisions is not None
        return Batch(self.plan.decisions(update), moves(update) if moves else [])

    def _update(self, update: int, batch: Batch) -> dict[str, float]:
        """Run all passes of one update and take the optimizer step; read losses now and then."""
        self._seed_dropout(update)
        self._descent.set_rates(update, self.progress.seconds)
        self._set_weights(update)
        if not self.student.model.training:
            self.student.model.train()
        sums = self._done(batch)
        self._tokens += float(sums["tokens.read"])
        return {} if update % self.plan.run.log_every else self._values(update, sums)

    def _done(self, batch: Batch) -> Sums:
        """Do an update and return its sums and gradient norms."""
        return self._work(batch)

    def _work(self, batch: Any) -> Sums:
        self._descent.forget()
        sums: Sums = {}
        assert self._factors is not None
        for result in self._passes(batch, self._factors):
            torch.autograd.backward(result.loss)
            add(sums, result.sums)
        return sums | self._descent.step(self._processes)

    def _values(self, update: int, sums: Sums) -> dict[str, float]:
        """Read what is logged; this waits for the device.

        Raises:
            TrainError: if a gradient is not finite; nothing of this update is saved then.
        """
        found = numbers(sums)
        norms = {name: found.pop(name) for name in list(found) if name.startswith("gradient.")}
        if not all(map(math.isfinite, norms.values())):
            raise TrainError("the loss is not finite; lower the learning rate in the recipe")
        return {**averages(self._processes.add(found)), **self._speed(update), **norms}

    def _speed(self, update: int) -> dict[str, float]:
        """Return seconds per update and tokens per second since the losses were last read."""
        now, (before, then) = time.perf_counter(), self._read
        seconds = max(1e-9, now - then)
        speed = self._tokens * self._processes.count / seconds
        self._read, self._tokens = (update, now), 0.0
        return {"seconds": seconds / max(1, update - before), "tokens_per_second": speed}

    def _passes(self, batch: Batch, weights: Weights) -> Iterator[Result]:
        moves = batch.moves if self._heads is not None else []
        mine: list[Record] = list(self._processes.share(batch.pairs))
        mine += self._processes.share(moves)
        totals = Totals(len(batch.pairs), len(moves))
        with self.student.arithmetic():
            for group in grouped(mine, self.plan.run.tokens_per_pass):
                yield scd_pass(self.student, self._heads, group, totals, weights)

    def _set_weights(self, update: int) -> None:
        stage, plan = self.plan.stage, self.plan
        if not isinstance(stage, StageTwo):
            self._factors = Weights(0.0, 0.0, 1.0, 0.0, plan.mean)
            return
        rise = losses.ramp(update, stage.warm_up, stage.ramp)
        known, change = self._factors, self._changing.set
        orbit = change(None if known is None else known.orbit, plan.orbit * rise)
        field = change(None if known is None else known.field, plan.field * rise)
        self._factors = Weights(orbit, field, stage.lambda_state, stage.beta, plan.mean)

    def _seed_dropout(self, update: int) -> None:
        """Name this update's dropout; a process of a group draws its own."""
        rank = self._processes.rank
        torch.manual_seed(derive(self.plan.seed, "dropout", update, rank) % 2**63)

    def _validate(self) -> dict[str, float]:
        """Measure validation decision loss and keep the weights if it is the smallest."""
        nll, tokens = self._measure()
        loss = nll / max(1, tokens)
        if loss < self.progress.best_loss:
            self.progress = self.progress._replace(best_update=self.progress.update, best_loss=loss)
            if self._processes.main:
                with checkpoint.publishing(self.folder / "best") as folder:
                    checkpoint.write_tensors(folder / "trainable.safetensors", self._trained)
                    if self._heads is not None:
                        state = self._heads.state_dict()
                        checkpoint.write_tensors(folder / "heads.safetensors", state)
        return {"validation.nll": loss}

    def _measure(self) -> tuple[float, float]:
        self.student.model.eval()
        sums: Sums = {}
        weights = Weights(0.0, 0.0, 1.0, 0.0, self.plan.mean)
        share = self._processes.share(self.plan.validation)
        with torch.no_grad(), self.student.arithmetic():
            for group in grouped(share, self.plan.run.tokens_per_pass):
                add(sums, scd_pass(self.student, None, group, Totals(1, 1), weights).sums)
        totals = self._processes.add(sums)
        return totals["nll"], totals["nll.tokens"]

    def _save(self) -> None:
        if self._processes.main:
            heads = {} if self._heads is None else self._heads.state_dict()
            self._checkpoints.save(self.progress, self._trained, heads, self._descent.state())
        self._processes.wait()

    def _resume(self) -> None:
        newest = self._checkpoints.newest()
        if newest is None:
            return
        found = checkpoint.load(newest)
        checkpoint.restore(self._trained, found.weights, newest)
        if self._heads is not None:
            self._heads.load_state_dict(found.heads)
        self._descent.resume(found.optimizer)
        self.progress = found.progress
