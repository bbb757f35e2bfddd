"""Two processes give the update of one, up to rounding."""

from __future__ import annotations

import os
import socket
from multiprocessing.context import ForkServerContext
from pathlib import Path

import torch

from waggle.scd.config import Recipe
from waggle.scd.run.stages import Stages
from waggle.scd.train.checkpoint import read_tensors


def member(group: dict[str, str], recipe: Recipe, corpus: Path, out: Path) -> None:
    """Train as one process of a group."""
    os.environ.update(group)
    torch.set_num_threads(1)
    Stages(recipe, corpus, out, 0).warm_start()


def test_two_processes_are_one(
    recipe: Recipe, corpus: Path, tmp_path: Path, workers: ForkServerContext
) -> None:
    still = recipe.model_copy(
        update={
            "adaptation": recipe.adaptation.model_copy(update={"dropout": 0.0}),
            "stage_one": recipe.stage_one.model_copy(update={"updates": 2}),
        }
    )
    Stages(still, corpus, tmp_path / "alone", 0).warm_start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
             "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}  # fmt: skip
    both = []
    for rank in ("0", "1"):
        own = {**group, "RANK": rank, "LOCAL_RANK": rank}
        both.append(workers.Process(target=member, args=(own, still, corpus, tmp_path / "two")))
    for process in both:
        process.start()
    for process in both:
        process.join(300)
    assert [process.exitcode for process in both] == [0, 0]
    name = "seed-0/warm-start/checkpoints/update-000002/trainable.safetensors"
    one, other = read_tensors(tmp_path / "alone" / name), read_tensors(tmp_path / "two" / name)
    assert all(torch.allclose(one[k], other[k], atol=1e-6) for k in one)
    assert (tmp_path / "two/seed-0/warm-start/law/adapter_config.json").exists()
