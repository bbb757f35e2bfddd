"""Speed of stage two on this machine: `waggle bench train`.

Runs the real loop (batches encoded ahead, packed passes, optimizer) on a real corpus, with the
backbone's own weights or random ones of a known shape, and says how long 648 updates take.
"""

from __future__ import annotations

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
from waggle.scd.config import Recipe, weights
from waggle.scd.heads import Heads
from waggle.scd.lessons import lessons
from waggle.scd.model import Student
from waggle.scd.prepare import Prepared
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


def bench_train(recipe: Recipe, corpus: Path, updates: int) -> Speed:
    """Measure so many updates of stage two under a recipe."""
    student = Student(recipe, 0)
    stage, seed = recipe.stage_two, derive(0, "bench")
    quiet = recipe.run.model_copy(
        update={"evaluate_every": 10**6, "save_every": 10**6, "log_every": 1}
    )
    plan = Plan(stage, quiet, seed, {}, None, [], None, *weights(stage, "scd"))
    prepared = Prepared(
        corpus / "prepared", Store(corpus), student.tokenizer, recipe.order,
        longest=recipe.max_context, workers=max(1, (os.cpu_count() or 1) - 2),
    )  # fmt: skip
    with prepared as records:
        held = records.decisions("validation", 2)
        every = lessons(records, stage, recipe.order, seed, recipe.transitions.eventful)
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
