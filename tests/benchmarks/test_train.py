"""A few updates of either stage are measured, in process and by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from benchmarks import shapes, train
from waggle.cli.main import main
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Recipe


@pytest.mark.parametrize("stage", [1, 2])
def test_updates_of_either_stage_are_measured(
    recipe: Recipe, corpus: Path, monkeypatch: pytest.MonkeyPatch, stage: Literal[1, 2]
) -> None:
    monkeypatch.setattr(train, "WARM", 1)
    speed = train.bench_train(recipe, corpus, 1, stage=stage)
    assert 0 < speed.computed <= speed.tokens and speed.seconds > 0
    assert speed.tokens_per_second == pytest.approx(speed.tokens / speed.seconds)
    assert speed.stage_seconds == pytest.approx(648 * speed.seconds)
    assert not speed.replayed and speed.memory == 0


def test_a_known_shape_is_trained_with_random_weights(
    recipe: Recipe, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {
        "vocab_size": len(nano_tokenizer()), "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    }  # fmt: skip
    monkeypatch.setitem(shapes.SHAPES, "small-shape", ("Llama", small))
    monkeypatch.setattr(shapes, "load_tokenizer", lambda _: nano_tokenizer())
    monkeypatch.setattr(train, "WARM", 1)
    chosen = recipe.model_copy(update={"backbone": "small-shape"})
    speed = train.bench_train(chosen, corpus, 1, stage=1)
    assert speed.backbone == "small-shape" and speed.tokens > 0


def test_the_command_prints_json(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(train, "WARM", 1)
    path = tmp_path / "recipe.toml"
    path.write_text(
        f'backbone = "{recipe.backbone}"\nmax_context = 4000\n'
        '[stage_one]\nbatch = 2\n[run]\ndevice = "cpu"\ndtype = "float32"\n',
        encoding="utf-8",
    )
    asked = ["bench", "train", str(path), "--corpus", str(corpus), "--first"]
    assert main([*asked, "--updates", "1", "--tokens-per-pass", "5000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["updates"] == 1
    assert main([*asked, "--updates", "0"]) == 2
