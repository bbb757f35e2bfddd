"""Speed of training on this machine: `waggle bench train`.

Runs the real updates (encoded batches, ragged passes, optimizer) on a real corpus, with the
backbone's own weights or random ones of a known shape, and says how long a stage takes: from a few
updates, or by running the whole stage two, in several calls whose times are summed.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import torch

from benchmarks.train_host import Host, watched
from waggle.core.seeds import derive
from waggle.corpus.store import Store
from waggle.scd.config import Recipe, Run, weights
from waggle.scd.data.arrays import Rows
from waggle.scd.data.batches import Batches, none_of, scd_batches, token_batches
from waggle.scd.data.encode import EncodedCorpus
from waggle.scd.files import TrainError
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.train.objective import Objective
from waggle.scd.train.trainer import Plan, Trainer, Watch, unwatched

WARM = 8
"""First updates, which compile and capture, and are not counted."""
WRITTEN = 10
"""A running call of a stage writes its time down this often."""
READ = 5
"""Losses are read at least this often, to know what updates cost."""
SEED = derive(0, "bench")


class Speed(NamedTuple):
    """What an update costs."""

    backbone: str
    order: str
    adaptation: str
    passes: str
    """`ragged`, `ragged, tree`, or `ragged, replayed`."""
    updates: int
    start: float
    """Seconds of the updates that do not count."""
    seconds: float
    """Mean seconds of an update, waiting for data included."""
    tokens: float
    """Tokens of the sequences of an update."""
    run: float
    """Tokens that went through the backbone, shared prefixes once."""
    tokens_per_second: float
    padding: float
    """Share of the row without a token."""
    passes_per_update: float
    stage_seconds: float
    """Extrapolated to the 648 updates of the paper's stage two."""
    memory: float
    """Peak GPU memory in GiB; 0 on a CPU."""
    busy: float
    """Share of the time in which the GPU computes; 0 if not asked for."""
    host: list[str]
    """Functions of this process that took most of its own time; none if not asked for."""


class Spent(NamedTuple):
    """What a whole stage has cost so far, over all calls."""

    backbone: str
    updates: int
    """Updates done."""
    calls: int
    seconds: float
    """Sum over calls: weights, compilation, updates, validation and checkpoints."""
    seconds_per_update: float
    stage_seconds: float
    """The sum, once the stage is whole; before that 0."""
    tokens_per_second: float
    """Median over the updates of `metrics.jsonl`, so that compilation does not count."""
    padding: float
    """Mean share of the row without a token over these updates."""


def bench_stage(
    recipe: Recipe, corpus: Path, folder: Path, until: int | None, *, watch: Watch = unwatched,
    tell: Callable[[str], None] = lambda _what: None,
) -> Spent:  # fmt: skip
    """Run stage two for real, from untrained heads and the backbone as it is, up to an update.

    The folder keeps checkpoints and the time of every call, so that the next call goes on.
    """
    clock = _Clock(folder, watch)
    student = Student(recipe, 0)
    _wait()
    tell("weights are there")
    with _encoded(recipe, student, corpus) as encoded:
        validation = encoded.decisions("validation", recipe.run.validation_records)
        batches = scd_batches(encoded, recipe, SEED)
    tell("records are prepared")
    trainer = _second(student, recipe, recipe.run, batches, validation, folder, watch=clock)
    progress = trainer.train(until)
    calls = clock.write(progress.update)
    seconds = sum(call["seconds"] for call in calls)
    return Spent(
        recipe.backbone, progress.update, len(calls), seconds,
        seconds / max(1, progress.update), seconds if trainer.finished else 0.0,
        *_pace(folder / "metrics.jsonl"),
    )  # fmt: skip


def _pace(metrics: Path) -> tuple[float, float]:
    """Read tokens per second and the share of padding off what a stage has written down."""
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    told = [found for found in map(json.loads, lines) if "tokens_per_second" in found]
    if not told:
        return 0.0, 0.0
    rates, padding = ([found[name] for found in told] for name in ("tokens_per_second", "padding"))
    return float(np.median(rates)), float(np.mean(padding))


class _Clock:
    """Keeps the time of every call in a file; that of a killed one up to its last tenth update."""

    def __init__(self, folder: Path, watch: Watch) -> None:
        self._start, self._path, self._watch = time.perf_counter(), folder / "calls.json", watch
        self._before = _calls(self._path)

    def __call__(self, update: int, updates: int, values: Mapping[str, float]) -> None:
        if (update + 1) % WRITTEN == 0:
            self.write(update + 1)
        self._watch(update, updates, values)

    def write(self, done: int) -> list[dict[str, float]]:
        """Write down how long this call has taken; return all calls."""
        told = {"updates": done, "seconds": time.perf_counter() - self._start}
        calls = [*self._before, told]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(calls), encoding="utf-8")
        os.replace(partial, self._path)
        return calls


def _calls(path: Path) -> list[dict[str, float]]:
    """Read the times of earlier calls.

    Raises:
        TrainError: if the file is not one that a call wrote.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[dict[str, float]])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise TrainError(f"cannot read {path} ({error}); give --stage another folder") from error


def _encoded(recipe: Recipe, student: Student, corpus: Path) -> EncodedCorpus:
    return EncodedCorpus(
        corpus / "prepared", Store(corpus), student.tokenizer, recipe.order,
        longest=recipe.max_context, workers=max(1, (os.cpu_count() or 1) - 2),
    )  # fmt: skip


def _first(student: Student, recipe: Recipe, run: Run, rows: Rows, folder: Path) -> Trainer:
    """Return a trainer of stage one on decision records, as a token corpus has them."""
    stage = recipe.stage_one
    plan = Plan(stage, run, SEED, {"bench": recipe.backbone})
    batches = token_batches(rows, stage, SEED)
    return Trainer(student, Objective(stage), batches, none_of(rows), plan, folder)


def _second(
    student: Student, recipe: Recipe, run: Run, batches: Batches, validation: Rows, folder: Path,
    watch: Watch = unwatched,
) -> Trainer:  # fmt: skip
    """Return a trainer of stage two with untrained heads."""
    stage = recipe.stage_two
    objective = Objective(stage, Heads(student.width, 0), weights(stage, "scd"))
    plan = Plan(stage, run, SEED, {"bench": recipe.backbone})
    return Trainer(student, objective, batches, validation, plan, folder, watch=watch)


def bench_train(
    recipe: Recipe, corpus: Path, updates: int, *, stage: Literal[1, 2] = 2, profile: bool = False
) -> Speed:
    """Measure so many updates of a stage under a recipe."""
    student = Student(recipe, 0)
    quiet = recipe.run.model_copy(update={"log_every": min(READ, recipe.run.log_every)})
    with tempfile.TemporaryDirectory() as folder:
        with _encoded(recipe, student, corpus) as encoded:
            rows = encoded.decisions("train")
            if stage == 1:
                trainer = _first(student, recipe, quiet, rows, Path(folder))
            else:
                batches = scd_batches(encoded, recipe, SEED)
                trainer = _second(student, recipe, quiet, batches, none_of(rows), Path(folder))
        return _measured(recipe, trainer, updates, profile=profile)


def _measured(recipe: Recipe, trainer: Trainer, updates: int, *, profile: bool) -> Speed:
    values: list[Mapping[str, float]] = []
    begun = time.perf_counter()
    started = ended = begun
    for update, found in trainer.steps(0, WARM + updates):
        if update >= WARM and found:
            values.append(found)
        if update in (WARM - 1, WARM + updates - 1):
            _wait()
            started, ended = ended if update >= WARM else time.perf_counter(), time.perf_counter()
    seconds = (ended - started) / updates
    host = watched(trainer, WARM + updates) if profile else Host(0.0, [])
    run = recipe.run
    replayed = run.capture and torch.cuda.is_available()

    def mean(name: str) -> float:
        return sum(v[name] for v in values) / len(values)

    return Speed(
        recipe.backbone, recipe.order, recipe.adaptation.kind,
        f"ragged{', replayed' if replayed else ', tree' * run.tree}",
        updates, started - begun, seconds, mean("tokens"), mean("tokens.run"),
        mean("tokens") / seconds, mean("padding"), mean("passes"), seconds * 648,
        torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0,
        host.busy, host.functions,
    )  # fmt: skip


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
