"""Two processes give the update of one, up to rounding."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import torch

from waggle.scd.checkpoint import read_tensors
from waggle.scd.config import Recipe
from waggle.scd.stages import Stages

SCRIPT = """
import sys, torch
from pathlib import Path
from waggle.scd.config import Recipe
from waggle.scd.stages import Stages
torch.set_num_threads(1)
recipe = Recipe.model_validate_json(Path(sys.argv[1]).read_text())
Stages(recipe, Path(sys.argv[2]), Path(sys.argv[3]), 0).warm_start()
"""


def test_two_processes_are_one(recipe: Recipe, corpus: Path, tmp_path: Path) -> None:
    still = recipe.model_copy(
        update={
            "adaptation": recipe.adaptation.model_copy(update={"dropout": 0.0}),
            "stage_one": recipe.stage_one.model_copy(update={"updates": 2}),
        }
    )
    Stages(still, corpus, tmp_path / "alone", 0).warm_start()
    settings = tmp_path / "recipe.json"
    settings.write_text(still.model_dump_json(), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
             "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}  # fmt: skip
    command = [sys.executable, "-c", SCRIPT, str(settings), str(corpus), str(tmp_path / "two")]
    both = [
        subprocess.Popen(command, env={**group, "RANK": rank, "LOCAL_RANK": rank})
        for rank in ("0", "1")
    ]
    assert [process.wait(timeout=300) for process in both] == [0, 0]
    name = "seed-0/warm-start/checkpoints/update-000002/trainable.safetensors"
    one, other = read_tensors(tmp_path / "alone" / name), read_tensors(tmp_path / "two" / name)
    assert all(torch.allclose(one[k], other[k], atol=1e-6) for k in one)
    assert (tmp_path / "two/seed-0/warm-start/law/adapter_config.json").exists()
