"""The training loop of both stages ("Optimization"): batch, passes, update, validate, save.

    Trainer(student, objective, batches, validation, plan, folder).train()

Every random draw of update u is seeded by (seed, u): orbit elements, batches, dropout. Arms of one
seed therefore train on the same records, and a run resumed at u continues as if it had never
stopped. The checkpoint with the smallest validation decision loss is selected.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from waggle.core.seeds import derive
from waggle.scd.config import Run, Stage
from waggle.scd.data.arrays import Rows
from waggle.scd.data.batches import Batch, Batches, none_of, passes
from waggle.scd.files import TrainError
from waggle.scd.forward.prefix_tree import sorted_by_tokens
from waggle.scd.model import Student
from waggle.scd.train import checkpoint, trackers
from waggle.scd.train.checkpoint import Checkpoints, Progress
from waggle.scd.train.cuda_graph import GraphRunner, Scalars
from waggle.scd.train.distributed import Processes
from waggle.scd.train.objective import Objective, Pass, Sums, add, make_pass, metrics, read
from waggle.scd.train.optimizer import Optimizer

Watch = Callable[[int, int, Mapping[str, float]], None]
"""Callback after every update, with its number, the number of updates, and its metrics."""


def unwatched(_update: int, _updates: int, _values: Mapping[str, float]) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Plan:
    """The training settings of a stage."""

    stage: Stage
    run: Run
    seed: int
    identity: Mapping[str, Any]
    """Settings that a checkpoint must share to be resumed from."""
    name: str = "run"


class Trainer:
    """The training loop of one stage of one arm."""

    def __init__(
        self, student: Student, objective: Objective, batches: Batches, validation: Rows,
        plan: Plan, folder: Path, *, watch: Watch = unwatched, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        """Prepare a stage; nothing is read or written before `train`.

        Args:
            student: the backbone; training begins with its current weights.
            objective: the loss.
            batches: the records of every update.
            validation: decision records by which a checkpoint is selected.
            plan: schedule, machine settings, seed and identity.
            folder: where metrics, checkpoints and selected weights go.
            watch: called after every update.
            processes: the group of training processes, if it exists already.
        """
        self.student, self.plan, self.folder = student, plan, folder
        self._objective, self._batches, self._watch = objective, batches, watch
        self._processes = processes or Processes()
        self._heads = None if objective.heads is None else objective.heads.to(student.device)
        self._trained = student.trainable()
        replayed = plan.run.capture and self._processes.count == 1
        replayed = replayed and torch.device(student.device).type == "cuda"
        self._graphs: GraphRunner[Pass] | None = None
        if replayed:
            self._graphs = GraphRunner(lambda shown: self._work([shown]))
        self._scalars = Scalars(student.device, replayed=replayed)
        self._tree = plan.run.tree and not replayed
        self._validation = validation.take(self._validation_order(validation))
        self._optimizer = Optimizer(self._trained, self._heads, plan.stage, self._scalars)
        self._checkpoints = Checkpoints(folder, plan.identity)
        self.progress = Progress(0, -1, math.inf)
        self._newest: Sums = {}
        self._last: float | None = None
        self._logged: tuple[int, float] = (0, time.perf_counter())
        self._tokens = 0.0
        self._warned = False

    def train(self, until: int | None = None) -> Progress:
        """Train from the newest checkpoint to the end or to update `until`; return the progress."""
        self._resume()
        last = min(self.plan.stage.updates, until or self.plan.stage.updates)
        if self.finished:  # time may be up before the last update
            last = self.progress.update
        self._logged = (self.progress.update - 1, time.perf_counter())
        sinks = self._sinks()
        try:
            for update, values in self.steps(self.progress.update, last):
                self._count(update + 1)
                final = update + 1 == last or self.finished
                if final or self._due(self.plan.run.evaluate_every):
                    values |= self._validate()
                if values:  # before the checkpoint, so that a kill between them loses no line
                    for sink in sinks:
                        sink.log(update, values)
                if final or self._due(self.plan.run.save_every):
                    self._save()
                self._watch(update, self._expected(), values)
                if final:
                    break
        finally:
            for sink in sinks:
                sink.close()
            if self._graphs is not None:
                self._graphs.clear()
                self._optimizer.clear()
        return self.progress

    def steps(self, first: int, last: int) -> Iterator[tuple[int, dict[str, float]]]:
        """Run updates from `first` until `last`, without validating or saving; yield metrics."""
        with ThreadPoolExecutor(1) as pool:
            # The next batch is prepared in a thread while this one runs.
            coming = pool.submit(self._passes, first) if first < last else None
            for update in range(first, last):
                assert coming is not None
                batch = coming.result()
                if update + 1 < last:
                    coming = pool.submit(self._passes, update + 1)
                yield update, self._update(update, batch)

    @property
    def finished(self) -> bool:
        """Whether all updates are done, or the time is up."""
        stage, progress = self.plan.stage, self.progress
        spent = stage.seconds is not None and progress.seconds >= stage.seconds
        return spent or progress.update >= stage.updates

    def _expected(self) -> int:
        """Return the number of updates, or how many the time is likely to allow if that is less."""
        stage, done, seconds = self.plan.stage, self.progress.update, self.progress.seconds
        if stage.seconds is None or not seconds:
            return stage.updates
        # The first update is not timed.
        return min(stage.updates, max(done, round(1 + (done - 1) * stage.seconds / seconds)))

    def _due(self, every: int) -> bool:
        return self.progress.update % every == 0

    def _count(self, done: int) -> None:
        """Count an update and the time since the last; the first may compile and is not timed."""
        now = time.perf_counter()
        spent = 0.0 if self._last is None else now - self._last
        self._last = now
        seconds = self.progress.seconds + spent
        if self.plan.stage.seconds is not None:  # all processes follow the clock of the first
            seconds = self._processes.agree(seconds)
        self.progress = self.progress._replace(update=done, seconds=seconds)

    def _sinks(self) -> list[trackers.Tracker]:
        if not self._processes.main:
            return []
        run = self.plan.run
        return trackers.make(run.tracker, self.folder, self.plan.name, self.progress.update)

    def _passes(self, update: int) -> list[Pass]:
        """Cut this process's share of an update into passes on the device."""
        mine = self._batches.batch(update, self._processes.rank, self._processes.count)
        if self._graphs is None:
            return list(self._cut(mine))
        with self._graphs.lock:
            return list(self._cut(mine, fixed=True))

    def _cut(self, batch: Batch, *, fixed: bool = False) -> Iterator[Pass]:
        for part in passes(batch, self.plan.run.tokens_per_pass):
            yield make_pass(part, self.student.device, fixed=fixed, tree=self._tree)

    def _update(self, update: int, batch: list[Pass]) -> dict[str, float]:
        """Run one update; return its metrics if they are due."""
        rank = self._processes.rank
        torch.manual_seed(derive(self.plan.seed, "dropout", update, rank) % 2**63)
        self._optimizer.set_rates(update, self.progress.seconds)
        self._objective.set_update(update, self._scalars)
        if not self.student.model.training:
            self.student.model.train()
        if self._graphs is not None and len(batch) == 1:
            sums = {**self._graphs(batch[0]), **batch[0].costs()}
        else:
            self._warn(batch)
            sums = self._work(batch)
        self._tokens += float(sums.get("tokens.read", 0.0))
        self._newest = sums
        return {} if update % self.plan.run.log_every else self._metrics(update, sums)

    def _work(self, batch: list[Pass]) -> Sums:
        """Run all passes of one update and take the optimizer step."""
        self._optimizer.clear()
        sums: Sums = {}
        for shown in batch:
            with self.student.arithmetic():
                result = self._objective(self.student, shown)
            torch.autograd.backward(result.loss)
            add(sums, result.sums)
        return sums | self._optimizer.step(self._processes)

    def _warn(self, batch: list[Pass]) -> None:
        """Warn once that updates are slower because they cannot be captured as requested."""
        if self._graphs is None or self._warned:
            return
        self._warned = True
        tokens = sum(shown.ragged.read for shown in batch)
        warnings.warn(
            f"an update of {len(batch)} passes is not captured, which makes it slower: raise "
            f"tokens_per_pass in [run] above its {tokens:,} tokens, or set capture = false",
            stacklevel=3,
        )

    def _metrics(self, update: int, sums: Sums) -> dict[str, float]:
        """Return the metrics to log; this waits for the device.

        Raises:
            TrainError: if a gradient is not finite.
        """
        found, norms = _read_finite(sums)
        return {**metrics(self._processes.add(found)), **self._speed(update), **norms}

    def _speed(self, update: int) -> dict[str, float]:
        """Return seconds per update and tokens per second since the losses were last read."""
        now, (before, then) = time.perf_counter(), self._logged
        seconds = max(1e-9, now - then)
        speed = self._tokens * self._processes.count / seconds
        self._logged, self._tokens = (update, now), 0.0
        return {"seconds": seconds / max(1, update - before), "tokens_per_second": speed}

    def _validation_order(self, rows: Rows) -> Any:
        """Return this process's share of the validation records, sorted by tokens for `tree`."""
        if self._tree:
            order = sorted_by_tokens(rows.ids, rows.starts, rows.inputs)
        else:
            order = np.arange(len(rows))
        return order[self._processes.rank :: self._processes.count]

    def _validate(self) -> dict[str, float]:
        """Measure validation decision loss, and save the weights if it is the smallest so far."""
        nll, tokens = self._measure()
        loss = nll / max(1, tokens)
        if loss < self.progress.best_loss:
            self.progress = self.progress._replace(best_update=self.progress.update, best_loss=loss)
            if self._processes.main:
                heads = None if self._heads is None else self._heads.state_dict()
                checkpoint.save_best(self.folder, self._trained, heads)
        return {"validation.nll": loss}

    def _measure(self) -> tuple[float, float]:
        """Return the summed validation loss and the number of tokens it covers."""
        self.student.model.eval()
        sums: Sums = {"nll": 0.0, "nll.tokens": 0.0}
        rows = self._validation
        with torch.no_grad(), self.student.arithmetic():
            for shown in self._cut(Batch(rows, None, none_of(rows))):
                add(sums, self._objective(self.student, shown, validating=True).sums)
        totals = self._processes.add(sums)
        return totals["nll"], totals["nll.tokens"]

    def _save(self) -> None:
        _read_finite(self._newest)  # an update that diverged is never saved, logged or not
        if self._processes.main:
            heads = {} if self._heads is None else self._heads.state_dict()
            self._checkpoints.save(self.progress, self._trained, heads, self._optimizer.state())
        self._processes.wait()

    def _resume(self) -> None:
        newest = self._checkpoints.newest()
        if newest is None:
            return
        found = checkpoint.load(newest)
        checkpoint.restore(self._trained, found.weights, newest)
        if self._heads is not None:
            self._heads.load_state_dict(found.heads)
        self._optimizer.resume(found.optimizer)
        self.progress = found.progress


def _read_finite(sums: Sums) -> tuple[dict[str, float], dict[str, float]]:
    """Read the sums of an update from the device, and its gradient norms apart.

    Raises:
        TrainError: if a gradient is not finite.
    """
    found = read(sums) if sums else {}
    norms = {name: found.pop(name) for name in list(found) if name.startswith("gradient.")}
    if not all(map(math.isfinite, norms.values())):
        raise TrainError("the loss is not finite; lower the learning rate in the recipe")
    return found, norms
