"""Speed of stage two on this machine: `waggle bench train`.

Runs the real loop (batches encoded ahead, packed or flat passes, optimizer) on a real corpus, with
the backbone's own weights or random ones of a known shape, and says how long 648 updates take: from
a few updates, or by running the whole stage, in several calls if need be, whose times are summed.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from waggle.core.seeds import derive
from waggle.corpus.store import Store
from waggle.scd.config import Recipe, Run, weights
from waggle.scd.heads import Heads
from waggle.scd.lessons import Lessons, lessons
from waggle.scd.model import Student
from waggle.scd.prepare import Prepared
from waggle.scd.rows import Rows
from waggle.scd.stages import second
from waggle.scd.trainer import Plan

WARM = 3
"""First updates, which pay for start-up and are not counted."""


class Speed(NamedTuple):
    """What an update costs."""

    backbone: str
    order: str
    adaptation: str
    updates: int
    seconds: float
    """Median seconds from one update to the next, waiting for data included."""
    tokens: float
    """Tokens of the sequences of an update."""
    run: float
    """Tokens that went through the backbone, shared prefixes once."""
    tokens_per_second: float
    padding: float
    """Share of padding in the matrix products: none, since passes are packed."""
    grid_padding: float
    """Share of empty slots in the attention grid."""
    passes: float
    stage_seconds: float
    """Extrapolated to the stage's updates."""
    memory: float
    """Peak GPU memory in GiB; 0 on a CPU."""


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


def bench_stage(recipe: Recipe, corpus: Path, folder: Path, until: int | None) -> Spent:
    """Run stage two for real, from untrained heads and the backbone as it is, up to an update.

    The folder keeps checkpoints and the time of every call, so that the next call goes on.
    """
    start = time.perf_counter()
    student = Student(recipe, 0)
    every, held = _lessons(recipe, student, corpus, recipe.run.validation_records)
    plan = _plan(recipe, recipe.run)
    trainer = second(student, Heads(student.width, 0), plan, every, held, folder)
    progress = trainer.train(until)
    path = folder / "calls.jsonl"
    told = {"updates": progress.update, "seconds": time.perf_counter() - start}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")
    calls = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    seconds = sum(call["seconds"] for call in calls)
    return Spent(
        recipe.backbone, progress.update, len(calls), seconds,
        seconds / max(1, progress.update), seconds if trainer.finished else 0.0,
    )  # fmt: skip


def _plan(recipe: Recipe, run: Run) -> Plan:
    stage = recipe.stage_two
    return Plan(
        stage, run, derive(0, "bench"), {"bench": recipe.backbone}, None, [], None,
        *weights(stage, "scd"),
    )  # fmt: skip


def _lessons(
    recipe: Recipe, student: Student, corpus: Path, validation: int
) -> tuple[Lessons, Rows]:  # fmt: skip
    prepared = Prepared(
        corpus / "prepared", Store(corpus), student.tokenizer, recipe.order,
        longest=recipe.max_context, workers=max(1, (os.cpu_count() or 1) - 2),
    )  # fmt: skip
    with prepared as records:
        held = records.decisions("validation", validation)
        seed, share = derive(0, "bench"), recipe.transitions.eventful
        return lessons(records, recipe.stage_two, recipe.order, seed, share), held


def bench_train(recipe: Recipe, corpus: Path, updates: int) -> Speed:
    """Measure so many updates of stage two under a recipe."""
    student = Student(recipe, 0)
    every, held = _lessons(recipe, student, corpus, 2)
    quiet = recipe.run.model_copy(
        update={"evaluate_every": 10**6, "save_every": 10**6, "log_every": 1}
    )
    plan = _plan(recipe, quiet)
    times: list[float] = []
    values: list[Mapping[str, float]] = []

    def watch(_update: int, _updates: int, found: Mapping[str, float]) -> None:
        times.append(time.perf_counter())
        values.append(found)

    with tempfile.TemporaryDirectory() as folder:
        heads = Heads(student.width, 0)
        trainer = second(student, heads, plan, every, held, Path(folder), watch=watch)
        trainer.train(updates + WARM + 1)
    return _speed(recipe, times, values)


def _speed(recipe: Recipe, times: list[float], values: list[Mapping[str, float]]) -> Speed:
    # The last update also pays for the final validation and checkpoint.
    gaps = [b - a for a, b in zip(times[WARM - 1 :], times[WARM:-1], strict=False)]
    counted = values[WARM:-1]

    def mean(name: str) -> float:
        return sum(v[name] for v in counted) / len(counted)

    cuda = torch.cuda.is_available() and recipe.run.device != "cpu"
    seconds = sum(gaps) / len(gaps)
    return Speed(
        recipe.backbone,
        recipe.order,
        recipe.adaptation.kind,
        len(gaps),
        median(gaps),
        mean("tokens"),
        mean("tokens.run"),
        mean("tokens") / seconds,
        0.0,
        mean("padding"),
        mean("passes"),
        seconds * recipe.stage_two.updates,
        torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0,
    )
