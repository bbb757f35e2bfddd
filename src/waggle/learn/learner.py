"""The training loop: sample a batch of episodes, assign credit, update, compare with the start.

    result = Learner(settings, seed, out).learn()

    OUT/metrics.jsonl   metrics of every batch
    OUT/weights/        plain weights for the players, the start's as version 1
    OUT/checkpoints/    to resume from; OUT/best/ has the weights of the best trial
    OUT/law/            the law, if it is better than the start; OUT/learn.json has the gain

Every random draw of batch b is keyed by (seed, b): cases, luck, rehearsed records. Weights are
selected by a trial on development seeds, and exported only if they gain on other development seeds.
If there are several processes (see `scd/train/distributed`), each plays a share of the episodes,
and all of them learn from every episode.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from waggle.core.protocols import Case
from waggle.core.seeds import generator
from waggle.evaluate.results import read_result
from waggle.learn import fidelity, imitation
from waggle.learn.config import (
    BUDGET,
    SCRATCH,
    Settings,
    development_cases,
    kept_cases,
    training_cases,
)
from waggle.learn.credit import Batch, advantages
from waggle.learn.luck import jobs_of
from waggle.learn.rollout import (
    Outcome,
    Rollouts,
    TrialEpisode,
    Weights,
    batch_of,
    rollouts,
)
from waggle.learn.runs import SUMMARY
from waggle.learn.start import Start, find_start, open_student, plain_weights
from waggle.learn.trial import Comparison, Trial, comparison_of, means, plain, stratum
from waggle.learn.updates import Updates
from waggle.scd.data.arrays import Rows
from waggle.scd.files import LAW, TrainError, write_json, write_tensors
from waggle.scd.model import Student
from waggle.scd.ship.export import export
from waggle.scd.train import checkpoint, trackers
from waggle.scd.train.checkpoint import Checkpoints, Progress
from waggle.scd.train.distributed import Processes

Watch = Callable[[int, Mapping[str, float]], None]
"""Called after every batch with its number and metrics."""
PATIENCE = 20
"""Consecutive batches without any difference between outcomes after which the run gives up."""
KINDS = "tasks", "start", "credit", "reward", "mode", "temperature", "rate", "replays", "cases"
"""Settings that are listed in a model card."""


class Result(NamedTuple):
    """The result of a run."""

    law: Path | None
    """The exported law; None if it is not better than the start."""
    found: Comparison
    summary: dict[str, Any]


class _PendingBatch(NamedTuple):
    """A batch whose episodes are being sampled."""

    cases: list[Case]
    outcomes: Callable[[], list[Outcome]]
    """Waits for the episodes and returns their outcomes."""


class Learner:
    """Trains a law from outcomes."""

    def __init__(
        self, settings: Settings, seed: int, out: Path, watch: Watch = lambda _batch, _values: None
    ) -> None:
        self._checkpoints = Checkpoints(out, {"seed": seed, **settings.fixed()})
        self.processes = Processes()
        settings = _on(settings, self.processes.device)
        self.settings, self.seed, self.out, self._watch = settings, seed, out, watch
        self.start: Start = find_start(settings)
        self.student: Student = open_student(self.start, settings, seed)
        self._trained = self.student.trainable()
        self.updates = Updates(self.student, settings, seed, self.processes)
        self.progress = Progress(0, -1, float("inf"))
        self._dead_batches = 0
        self._next: _PendingBatch | None = None

    def learn(self) -> Result:
        """Train until the time or batch budget is spent; export the law if it beats the start.

        A finished run is not played again: its result is read. With another budget it goes on.
        """
        if (known := self._finished()) is not None:
            return known
        trial_cases = development_cases(self.settings, self.settings.trial_cases, final=False)
        final_cases = development_cases(self.settings, self.settings.final_cases, final=True)
        self._prepare()
        with rollouts(self.start, self.settings, self.processes) as players:
            start = self._publish(1)
            self._resume()
            if not self._over:  # else only the last comparison is missing
                self.updates.rehearsal = self._rehearsal_records(players, start)
                self._loop(players, Trial(players, trial_cases, start))
            return self._finish(players, start, final_cases)

    def _finished(self) -> Result | None:
        """Return the result of this run if it is there; None if anything is left to do."""
        self._checkpoints.newest()  # refuses a folder with a run of other settings
        path = self.out / SUMMARY
        if not path.exists():
            return None
        summary = read_result(path, "result of `waggle learn`")
        budget = {name: getattr(self.settings, name) for name in BUDGET}
        if any(summary["settings"][name] != value for name, value in budget.items()):
            return None
        if self.settings.fidelity and "fidelity" not in summary:
            return None
        law = self.out / LAW
        return Result(law if law.is_dir() else None, comparison_of(summary["law"]), summary)

    # Before the loop.

    def _prepare(self) -> None:
        """Teach an untrained model the format; keep a copy of the initial weights."""
        if self.start.name == SCRATCH and self.settings.grammar_updates:
            self._learn_grammar()
        if self.settings.kl:
            reference = open_student(self.start, self.settings, self.seed)
            checkpoint.restore(reference.trainable(), self._trained, self.out)
            reference.model.eval().requires_grad_(False)
            self.updates.reference = reference

    def _learn_grammar(self) -> None:
        """Imitate random legal records; save the weights, so that this is done only once."""
        folder = self.out / "grammar"
        if (folder / checkpoint.BEST).exists():
            checkpoint.restore_best(self._trained, folder)
            return
        rows = imitation.random_records(
            self.settings, self.student.tokenizer, self.start.order, self.seed
        )
        self.updates.learn_format(rows)
        if self.processes.main:
            checkpoint.save_best(folder, self._trained, None)

    def _rehearsal_records(self, players: Rollouts, start: Weights) -> Rows | None:
        """Return decisions of the starting law on the tasks to rehearse."""
        if not self.settings.rehearse:
            return None
        cases = imitation.rehearsal_cases(self.settings, self.seed)
        return imitation.kept(players.records(start, cases), self.settings, self.seed)

    def _publish(self, version: int) -> Weights:
        """Write the current weights for the players, which may still need the previous ones.

        Version 1 is the start, b + 2 plays batch b, and the selected weights come last.
        """
        folder = self.out / "weights"
        weights = Weights(version, folder / f"{version}.safetensors")
        with self.processes.first():
            if self.processes.main:
                folder.mkdir(parents=True, exist_ok=True)
                write_tensors(weights.path, plain_weights(self.student))
                if version > 3:  # keep those of the start
                    (folder / f"{version - 2}.safetensors").unlink(missing_ok=True)
        return weights

    def _resume(self) -> None:
        newest = self._checkpoints.newest()
        if newest is None:
            return
        saved = checkpoint.load(newest)
        checkpoint.restore(self._trained, saved.weights, newest)
        self.updates.optimizer.resume(saved.optimizer)
        self.progress = saved.progress

    # The loop.

    def _loop(self, players: Rollouts, trial: Trial) -> None:
        settings = self.settings
        played = self.progress.update
        # Batches are numbered from 1 in the metrics; line 0 is the start.
        sinks = [] if not self.processes.main else trackers.make(
            settings.machine.tracker, self.out, settings.name, played + 1 if played else 0
        )  # fmt: skip
        weights = self._publish(played + 2)
        if played == 0:
            start_values = {"trial.score": _mean(trial.start), "trial.gain": 0.0}
            for sink in sinks:
                sink.log(0, start_values)
            self._watch(0, start_values)
        try:
            while not self._over:
                began = time.perf_counter()
                batch = self.progress.update
                values = self._batch(players, weights, batch)
                weights = self._publish(batch + 3)
                spent = self.progress.seconds + time.perf_counter() - began
                spent = self.processes.agree(spent)  # all processes use one clock
                self.progress = self.progress._replace(update=batch + 1, seconds=spent)
                values["minutes"] = spent / 60
                if self._over or (batch + 1) % settings.trial_every == 0:
                    values |= self._compare(trial, weights)
                for sink in sinks:  # before the checkpoint, so that a kill here loses no line
                    sink.log(batch + 1, values)
                if self._over or (batch + 1) % settings.machine.save_every == 0:
                    self._save()
                self._watch(batch + 1, values)
        finally:
            for sink in sinks:
                sink.close()

    def _save(self) -> None:
        if self.processes.main:
            self._checkpoints.save(self.progress, self._trained, {}, self.updates.optimizer.state())

    @property
    def _over(self) -> bool:
        """True once the time or batch budget is spent."""
        spent = self.progress.seconds >= 60 * self.settings.minutes
        return spent or self.progress.update >= self.settings.batches

    def _compare(self, trial: Trial, weights: Weights) -> dict[str, float]:
        """Compare with the start, and save the weights if they are the best so far."""
        comparison = trial.compare(weights)
        gain = comparison.gain
        if -gain.mean < self.progress.best_loss:
            self.progress = self.progress._replace(
                best_update=self.progress.update, best_loss=-gain.mean
            )
            if self.processes.main:
                checkpoint.save_best(self.out, self._trained, None)
        return {
            "trial.gain": gain.mean, "trial.low": gain.low, "trial.high": gain.high,
            "trial.executable": comparison.executable,
            **{f"trial {name}": mean for name, mean in comparison.means.items()},
        }  # fmt: skip

    def _batch(self, players: Rollouts, weights: Weights, number: int) -> dict[str, float]:
        """Sample a batch and learn from it; return its metrics."""
        settings, began = self.settings, time.perf_counter()
        ahead = self._next is not None
        cases, wait = self._next or self._begin(players, weights, number)
        outcomes, self._next = wait(), None
        # A resumed run has no weights older than the checkpoint's, so those play the next batch.
        ahead_of_next = (number + 1) % settings.machine.save_every
        if settings.ahead and ahead_of_next and number + 1 < settings.batches:
            self._next = self._begin(players, weights, number + 1)
        batch = batch_of(outcomes, settings)
        rewards, decisions = batch.rewards, batch.decisions
        sampled = time.perf_counter()
        self._require_credit(batch)
        advantage = advantages(batch, settings.credit, settings.charge)
        if settings.shuffled:
            advantage = generator(self.seed, "shuffled", number).permutation(advantage)
        values = self.updates.learn(decisions, advantage, number)
        ended = time.perf_counter()
        # A batch sampled ahead was played while the previous one was learned from.
        playing = (ended if ahead else sampled) - began
        return {
            "reward": float(rewards.mean()), **_by_task(cases, rewards), "dead": batch.dead,
            "executable": float(decisions.legal.mean()), "decisions": float(len(decisions)),
            "decisions_per_second": len(decisions) / playing,
            "seconds.sampling": sampled - began, "seconds.learning": ended - sampled, **values,
        }  # fmt: skip

    def _begin(self, players: Rollouts, weights: Weights, number: int) -> _PendingBatch:
        """Start sampling a batch."""
        settings = self.settings
        cases = training_cases(settings, self.seed, number)
        trunk = settings.credit == "progress"
        jobs = jobs_of(cases, settings.replays, self.seed, number, trunk=trunk)
        return _PendingBatch(cases, players.begin(weights, jobs))

    def _require_credit(self, batch: Batch) -> None:
        """Raise TrainError if no decision got credit for PATIENCE batches."""
        credited = advantages(batch, self.settings.credit, charge=0.0).any()
        self._dead_batches = 0 if credited else self._dead_batches + 1
        if self._dead_batches >= PATIENCE:
            raise TrainError(
                f"every episode of {PATIENCE} batches came out at {batch.rewards.mean():.3g}: "
                "nothing can be learned; choose a reward that varies, smaller swarms or a "
                "higher temperature"
            )

    # After the loop.

    def _finish(self, players: Rollouts, start: Weights, cases: list[Case]) -> Result:
        """Compare the selected weights, and the controls, on other cases; export if better."""
        self.processes.wait()  # for the main process, which saves the selected weights
        if self.progress.best_update > 0:
            checkpoint.restore_best(self._trained, self.out)
        if self.student.recipe.adaptation.kind == "full":
            self._round()
        selected = self._publish(self.progress.update + 4)
        trial = Trial(players, cases, start)
        comparison = trial.compare(selected)
        summary: dict[str, Any] = {
            "settings": self.settings.model_dump(mode="json"), "seed": self.seed,
            "origin": {"teacher": self.start.teacher, "backbone": self.start.origin},
            "batches": self.progress.update, "selected batch": self.progress.best_update,
            "minutes": round(self.progress.seconds / 60, 2), "start": means(trial.start),
            "law": plain(comparison),
            "sampled": plain(trial.compare_sampled(selected)),
            "controls": {
                name: plain(found)
                for name, found in trial.compare_controls(selected, comparison.usual).items()
            },
        }  # fmt: skip
        if self.settings.fidelity:
            summary["fidelity"] = fidelity.measure(players, selected, self.settings, self.seed)
        if self.settings.rehearse:
            kept = Trial(players, kept_cases(self.settings), start)
            summary["kept"] = {"start": means(kept.start), "law": plain(kept.compare(selected))}
        better = comparison.gain.above_zero
        if self.processes.main:
            if better:
                self._export(comparison, summary)
            write_json(self.out / SUMMARY, summary)  # last: this file marks a finished run
            shutil.rmtree(self.out / "weights", ignore_errors=True)
        self.processes.wait()
        return Result(self.out / LAW if better else None, comparison, summary)

    def _round(self) -> None:
        """Round all weights as the export does, so that the law compared is the law exported."""
        with torch.no_grad():
            for weight in self._trained.values():
                weight.copy_(weight.bfloat16())

    def _export(self, comparison: Comparison, summary: Mapping[str, Any]) -> None:
        gain = comparison.gain
        card = {
            "teacher": self.start.teacher, "learned from": "outcomes",
            **{name: json.dumps(getattr(self.settings, name)) for name in KINDS},
            "minutes of learning": summary["minutes"], "training seed": self.seed,
            "gain over the start, development cases":
                f"{gain.mean:.3f} [{gain.low:.3f}, {gain.high:.3f}], {gain.units} cases",
            "executable as decoded": f"{comparison.executable:.4f}",
        }  # fmt: skip
        settings = self.settings.model_dump(mode="json")
        export(self.student, self.out / LAW, card, settings, self.start.folder)


def _on(settings: Settings, device: str | None) -> Settings:
    """Return settings with the device of this process in a group; None leaves them unchanged."""
    if device is None:
        return settings
    machine = settings.machine.model_copy(update={"device": device})
    return settings.model_copy(update={"machine": machine})


def _mean(ended: Sequence[TrialEpisode]) -> float:
    return float(np.mean(list(means(ended).values())))


def _by_task(cases: Sequence[Case], rewards: NDArray[np.float64]) -> dict[str, float]:
    """Return the mean reward per task and size of a batch."""
    table: dict[str, list[float]] = {}
    for case, of_case in zip(cases, rewards.reshape(len(cases), -1), strict=True):
        table.setdefault(f"reward {stratum(case)}", []).append(float(of_case.mean()))
    return {name: float(np.mean(values)) for name, values in table.items()}
