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
from waggle.learn import fidelity, imitation
from waggle.learn.config import (
    SCRATCH,
    Settings,
    development_cases,
    kept_cases,
    training_cases,
)
from waggle.learn.controls import CONTROLS
from waggle.learn.credit import Batch, advantages, sample_decisions
from waggle.learn.decisions import Decisions
from waggle.learn.losses import lay_out_choices, log_policy, policy_terms
from waggle.learn.luck import jobs_of
from waggle.learn.rollout import (
    Outcome,
    Rollouts,
    TrialEpisode,
    Weights,
    batch_of,
    rollouts,
)
from waggle.learn.start import Start, find_start, open_student, plain_weights
from waggle.learn.trial import Comparison, Trial, means, plain, stratum
from waggle.scd.config import Stage
from waggle.scd.data.arrays import Rows
from waggle.scd.data.batches import groups
from waggle.scd.files import LAW, TrainError, write_json, write_tensors
from waggle.scd.forward.prefix_tree import sorted_by_tokens
from waggle.scd.forward.ragged import Ragged, lay_out
from waggle.scd.forward.run import final_states, output_of, run
from waggle.scd.model import Student
from waggle.scd.ship.export import export
from waggle.scd.train import checkpoint, trackers
from waggle.scd.train.checkpoint import Checkpoints, Progress
from waggle.scd.train.cuda_graph import Scalars
from waggle.scd.train.distributed import Processes
from waggle.scd.train.optimizer import Optimizer

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
        self._reference: Student | None = None
        stage = Stage(
            updates=1_000_000, rate=settings.rate, rate_warm_up=settings.rate_warm_up,
            weight_decay=0.0,
        )  # fmt: skip
        self._optimizer = self._open_optimizer(stage)
        self.progress = Progress(0, -1, float("inf"))
        self._dead_batches = 0
        self._next: _PendingBatch | None = None
        self._rehearsal: Rows | None = None

    def _open_optimizer(self, stage: Stage) -> Optimizer:
        return Optimizer(self._trained, None, stage, Scalars(self.student.device, replayed=False))

    def learn(self) -> Result:
        """Train until the time or batch budget is spent; export the law if it beats the start."""
        trial_cases = development_cases(self.settings, self.settings.trial_cases, final=False)
        final_cases = development_cases(self.settings, self.settings.final_cases, final=True)
        self._prepare()
        with rollouts(self.start, self.settings, self.processes) as players:
            start = self._publish(1)
            self._resume()
            if not self._over:  # else only the last comparison is missing
                self._rehearsal = self._rehearsal_records(players, start)
                self._loop(players, Trial(players, trial_cases, start))
            return self._finish(players, start, final_cases)

    # Before the loop.

    def _prepare(self) -> None:
        """Teach an untrained model the format; keep a copy of the initial weights."""
        if self.start.name == SCRATCH and self.settings.grammar_updates:
            self._learn_grammar()
        if self.settings.kl:
            self._reference = open_student(self.start, self.settings, self.seed)
            checkpoint.restore(self._reference.trainable(), self._trained, self.out)
            self._reference.model.eval().requires_grad_(False)

    def _learn_grammar(self) -> None:
        """Imitate random legal records; save the weights, so that this is done only once."""
        folder = self.out / "grammar"
        if (folder / checkpoint.BEST).exists():
            checkpoint.restore_best(self._trained, folder)
            return
        rows = imitation.random_records(
            self.settings, self.student.tokenizer, self.start.order, self.seed
        )
        stage = Stage(
            updates=self.settings.grammar_updates, rate=1e-3, rate_warm_up=20, decay="cosine"
        )
        optimizer = self._open_optimizer(stage)
        self.student.model.train()
        for update in range(stage.updates):
            optimizer.set_rates(update, 0.0)
            optimizer.clear()
            drawn = imitation.draw_rows(rows, imitation.BATCH, self.seed, update)
            self._imitate(drawn, 1 / int((drawn.lengths - drawn.prompts).sum()))
            optimizer.step(self.processes)
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
        self._optimizer.resume(saved.optimizer)
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
            self._checkpoints.save(self.progress, self._trained, {}, self._optimizer.state())

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
        if settings.ahead and (number + 1) % settings.machine.save_every:
            self._next = self._begin(players, weights, number + 1)
        batch = batch_of(outcomes, settings)
        rewards, decisions = batch.rewards, batch.decisions
        sampled = time.perf_counter()
        self._require_credit(batch)
        advantage = advantages(batch, settings.credit, settings.charge)
        if settings.shuffled:
            advantage = generator(self.seed, "shuffled", number).permutation(advantage)
        values = self._learn(decisions, advantage, number)
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

    def _learn(
        self, decisions: Decisions, advantage: NDArray[np.float64], number: int
    ) -> dict[str, float]:
        """Run the updates of a batch, each on its share of the decisions that got credit."""
        draws = generator(self.seed, "updates", number)
        order, advantage = sample_decisions(advantage, self.settings.trained, draws)
        updates = self.settings.updates
        norm = 0.0
        own_sums: dict[str, float] = {}  # of this process's choices: loss terms, and their number
        self.student.model.train()
        for place, chosen in enumerate(np.array_split(order, updates)):
            if len(chosen):
                update = number * updates + place
                norm += self._update(decisions.take(chosen), advantage[chosen], update, own_sums)
        sums = self.processes.add(own_sums)
        choices = max(1.0, sums.pop("choices", 0.0))
        if self._reference is None:  # zero, since it was not measured
            sums.pop("divergence", None)
        return {
            "gradient": norm / updates, "trained": float(max(1, len(order))),
            **{f"choice.{name}": value / choices for name, value in sums.items()},
        }  # fmt: skip

    def _update(
        self, decisions: Decisions, advantage: NDArray[np.float64], update: int,
        sums: dict[str, float],
    ) -> float:  # fmt: skip
        """Run one update on this process's share of the decisions; return the gradient norm."""
        settings, count = self.settings, len(decisions)
        self._optimizer.set_rates(update, 0.0)
        self._optimizer.clear()
        # Put prompts of one task side by side, so that their common prefix is computed once.
        starts = np.cumsum(decisions.lengths) - decisions.lengths
        by_tokens = sorted_by_tokens(decisions.ids, starts, decisions.prompts)
        own = np.array_split(by_tokens, self.processes.count)[self.processes.rank]
        decisions, advantage = decisions.take(own), advantage[own]
        for rows in groups(decisions.lengths, settings.machine.tokens_per_pass):
            self._pass(decisions.take(rows), advantage[rows], count, sums)
        if self._rehearsal is not None and settings.rehearsed:
            rehearsed = max(1, round(count * settings.rehearsed / (1 - settings.rehearsed)))
            records = imitation.draw_rows(self._rehearsal, rehearsed, self.seed, update)
            # A record weighs like a decision.
            self._imitate(records, settings.rehearsed / rehearsed)
        norms = self._optimizer.step(self.processes)
        norm = float(norms["gradient.backbone"])
        if not np.isfinite(norm):
            raise TrainError("the loss is not finite; lower the rate of the recipe")
        return norm

    def _pass(
        self, decisions: Decisions, advantage: NDArray[np.float64], count: int,
        sums: dict[str, float],
    ) -> None:  # fmt: skip
        """Accumulate the gradient of one pass of an update of `count` decisions; add to `sums`."""
        settings, device = self.settings, self.student.device
        ragged = lay_out(decisions.ids, decisions.lengths, decisions.prompts, device=device)
        choices = lay_out_choices(decisions, advantage, device)
        start = None
        if self._reference is not None:
            with torch.no_grad(), self._reference.arithmetic():
                logits = _logits(self._reference, ragged)
                start = log_policy(logits, choices, settings.temperature)
        with self.student.arithmetic():
            terms = policy_terms(
                _logits(self.student, ragged), ragged.targets, choices, start,
                temperature=settings.temperature, clip=settings.clip, most=settings.entropy_most,
            )  # fmt: skip
        loss = (
            terms.policy + settings.kl * terms.divergence - settings.entropy * terms.entropy
            + settings.legality * terms.legality
        )  # fmt: skip
        torch.autograd.backward(loss / count)
        values = torch.stack([term.detach().float() for term in terms]).tolist()
        for name, value in zip(terms._fields, values, strict=True):
            sums[name] = sums.get(name, 0.0) + value
        sums["choices"] = sums.get("choices", 0.0) + len(choices.row)

    def _imitate(self, rows: Rows, weight: float) -> None:
        """Accumulate the gradient of imitating this process's share of the records."""
        rows = rows.take(np.arange(self.processes.rank, len(rows), self.processes.count))
        for chosen in groups(rows.inputs, self.settings.machine.tokens_per_pass):
            part = rows.take(chosen)
            ragged = lay_out(part.ids, part.lengths, part.prompts, device=self.student.device)
            with self.student.arithmetic():
                nll = run(self.student.model, ragged).nll.sum()
            torch.autograd.backward(weight * nll)

    # After the loop.

    def _finish(self, players: Rollouts, start: Weights, cases: list[Case]) -> Result:
        """Compare the selected weights, and the controls, on other cases; export if better."""
        self.processes.wait()  # for the main process, which saves the selected weights
        if self.progress.best_update > 0:
            checkpoint.restore_best(self._trained, self.out)
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
            "controls": {name: plain(trial.compare(selected, name)) for name in CONTROLS},
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
            write_json(self.out / "learn.json", summary)  # last: this file marks a finished run
            shutil.rmtree(self.out / "weights", ignore_errors=True)
        self.processes.wait()
        return Result(self.out / LAW if better else None, comparison, summary)

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


def _logits(student: Student, ragged: Ragged) -> torch.Tensor:
    """Return the logits of all predicted tokens of a pass."""
    states = final_states(student.model, ragged)
    logits: torch.Tensor = output_of(student.model)(states.index_select(0, ragged.where))
    return logits
