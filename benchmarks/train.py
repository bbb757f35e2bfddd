"""What does a training update cost on this machine?

    waggle bench train recipes/lineage/far.toml --corpus runs/lineage/far/corpus

Runs the real updates (encoded batches, ragged passes, optimizer) on a real corpus, with the
backbone's own weights or random ones of a known shape. The first updates, which compile and capture
CUDA graphs, are not counted.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from benchmarks.shapes import SHAPES, save_shape
from waggle.core.seeds import derive
from waggle.corpus.store import Store
from waggle.scd.config import Recipe, Run, weights
from waggle.scd.data.batches import none_of, token_batches
from waggle.scd.data.encode import EncodedCorpus, scd_batches
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.ship.export import export
from waggle.scd.train.objective import Objective
from waggle.scd.train.trainer import Plan, Trainer

WARM_UP = 8
"""Default number of warm-up updates, which are not counted."""
READ = 5
"""Maximum number of updates between readings of the losses, which wait for the device."""
STAGE_TWO = 648
"""Number of updates of the paper's stage two."""
SEED = derive(0, "bench")


class Speed(NamedTuple):
    """The cost of a training update."""

    backbone: str
    adaptation: str
    replayed: bool
    """Whether updates are replayed as CUDA graphs."""
    updates: int
    start: float
    """Total seconds of the warm-up updates."""
    seconds: float
    """Mean seconds per update, including waiting for data."""
    tokens: float
    """Mean number of tokens in the sequences of an update."""
    computed: float
    """Mean number of tokens run through the backbone per update; shared prefixes count once."""
    tokens_per_second: float
    padding: float
    """Share of computed positions without a token."""
    passes: float
    """Passes per update."""
    stage_seconds: float
    """Estimated seconds for all updates of the paper's stage two."""
    memory: float
    """Peak GPU memory in GiB; 0 on a CPU."""


def bench_train(
    recipe: Recipe, corpus: Path, updates: int, *, stage: Literal[1, 2] = 2,
    law: Path | None = None, warm_up: int = WARM_UP,
) -> Speed:  # fmt: skip
    """Time updates of a training stage; if `law` is given, export the result there as a law."""
    run, name = recipe.run, recipe.backbone
    run = run.model_copy(update={"log_every": min(READ, run.log_every, updates)})
    with tempfile.TemporaryDirectory() as folder:
        if name in SHAPES:
            made = str(save_shape(name, Path(folder) / "backbone"))
            recipe = recipe.model_copy(update={"backbone": made})
        student = Student(recipe, 0)
        trainer = _trainer(student, recipe, run, corpus, stage, Path(folder))
        speed = _measured(recipe, trainer, updates, warm_up)._replace(backbone=name)
        if law is not None:
            export(student, law, {"objective": "rehearsal", "updates": warm_up + updates})
        return speed


def _trainer(
    student: Student, recipe: Recipe, run: Run, corpus: Path, stage: Literal[1, 2], folder: Path
) -> Trainer:
    """Return a trainer of a stage that starts from the given student, with untrained heads."""
    workers = max(1, (os.cpu_count() or 1) - 2)
    identity = {"bench": recipe.backbone}
    with EncodedCorpus(
        corpus / "prepared", Store(corpus), student.tokenizer, recipe.order,
        longest=recipe.max_context, workers=workers,
    ) as encoded:  # fmt: skip
        rows = encoded.decisions("train")
        if stage == 1:
            one = recipe.stage_one
            batches, objective = token_batches(rows, one, SEED), Objective(one)
            plan = Plan(one, run, SEED, identity)
        else:
            two = recipe.stage_two
            batches = scd_batches(encoded, recipe, SEED)
            objective = Objective(two, Heads(student.width, 0), weights(two, "scd"))
            plan = Plan(two, run, SEED, identity)
    return Trainer(student, objective, batches, none_of(rows), plan, folder)


def _measured(recipe: Recipe, trainer: Trainer, updates: int, warm_up: int) -> Speed:
    cuda = torch.cuda.is_available()
    begun = warm = ended = time.perf_counter()
    values: list[Mapping[str, float]] = []
    for update, found in trainer.steps(0, warm_up + updates):
        if update >= warm_up and found:
            values.append(found)
        if update in (warm_up - 1, warm_up + updates - 1):
            if cuda:
                torch.cuda.synchronize()
            ended = time.perf_counter()
            warm = ended if update < warm_up else warm
    seconds = (ended - warm) / updates

    def mean(name: str) -> float:
        return sum(v[name] for v in values) / len(values)

    return Speed(
        recipe.backbone, recipe.adaptation.kind, recipe.run.capture and cuda, updates,
        warm - begun, seconds, mean("tokens"), mean("tokens.run"), mean("tokens") / seconds,
        mean("padding"), mean("passes"), seconds * STAGE_TWO,
        torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0,
    )  # fmt: skip
