"""`waggle train`: what a finished run keeps, and that it is not trained again."""

from __future__ import annotations

from pathlib import Path

import pytest

from waggle.cli.main import main
from waggle.scd.config import Recipe, read_recipe
from waggle.scd.run.stages import Stages
from waggle.scd.train.trainer import Trainer

RECIPE = """
name = "small"
backbone = "{backbone}"
max_context = 4000
[adaptation]
rank = 4
[stage_one]
updates = 2
batch = 2
[stage_two]
updates = 4
batch = 2
transition_batch = 2
[run]
device = "cpu"
dtype = "float32"
evaluate_every = 2
save_every = 1
validation_records = 2
"""


def folders(stage: Path) -> set[str]:
    return {path.name for path in stage.iterdir() if path.is_dir()}


def test_a_finished_run_keeps_laws_and_selected_weights_alone(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "small.toml", tmp_path / "run"
    path.write_text(RECIPE.format(backbone=recipe.backbone))
    stages = Stages(read_recipe(path), corpus, out, 0)
    stages.warm_start()
    stages.arm("orbit", until=2)
    asked = ["train", str(path), "--corpus", str(corpus), "--out", str(out), "--arm"]
    assert main([*asked, "decision"]) == 0
    assert folders(out / "seed-0/warm-start") == folders(out / "seed-0/decision") == {"best", "law"}
    # An arm that is not finished resumes from its newest checkpoint.
    assert (out / "seed-0/orbit/checkpoints/update-000002").exists()
    began: list[int] = []
    real = Trainer._resume

    def resume(self: Trainer) -> None:
        real(self)
        began.append(self.progress.update)

    monkeypatch.setattr(Trainer, "_resume", resume)
    assert main([*asked, "decision"]) == 0 and began == []
    assert main([*asked, "orbit"]) == 0 and began == [2]
    assert folders(out / "seed-0/orbit") == {"best", "law"}
