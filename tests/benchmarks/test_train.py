"""A few updates of either stage are measured, in process and by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from benchmarks import shapes, train
from waggle.cli.main import main
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Recipe, read_recipe
from waggle.scd.files import read_tensors


@pytest.mark.parametrize("stage", [1, 2])
def test_updates_of_either_stage_are_measured(
    recipe: Recipe, corpus: Path, monkeypatch: pytest.MonkeyPatch, stage: Literal[1, 2]
) -> None:
    speed = train.bench_train(recipe, corpus, 1, stage=stage, warm_up=1)
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
    chosen = recipe.model_copy(update={"backbone": "small-shape"})
    speed = train.bench_train(chosen, corpus, 1, stage=1, warm_up=0)
    assert speed.backbone == "small-shape" and speed.tokens > 0


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("paper", "Qwen3"),
        pytest.param("factorial_gemma", "Gemma3", marks=pytest.mark.slow),
        pytest.param("llama", "Llama", marks=pytest.mark.slow),
    ],
)
def test_recipes_of_large_backbones_are_rehearsed_with_random_weights(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, family: str
) -> None:
    _, sizes = next(shape for shape in shapes.SHAPES.values() if shape[0] == family)
    small = sizes | {
        "vocab_size": len(nano_tokenizer()), "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    }  # fmt: skip
    if "head_dim" in sizes:
        small["head_dim"] = 8
    monkeypatch.setitem(shapes.SHAPES, "small-shape", (family, small))
    monkeypatch.setattr(shapes, "load_tokenizer", lambda _: nano_tokenizer())
    own = read_recipe(Path(__file__).parents[2] / "recipes" / f"{name}.toml")
    run = own.run.model_copy(update={"device": "cpu", "dtype": "float32", "compile": False})
    two = own.stage_two.model_copy(update={"updates": 2, "batch": 2, "transition_batch": 2})
    rank = own.adaptation.model_copy(update={"rank": 4})
    changed = {"backbone": "small-shape", "run": run, "stage_two": two, "adaptation": rank}
    law = tmp_path / "law"
    train.bench_train(own.model_copy(update=changed), corpus, 1, law=law, warm_up=0)
    weights = read_tensors(law / "adapter_model.safetensors")
    assert weights and all("lora_" in key for key in weights)
    assert f'"name": "{own.name}"' in (law / "waggle.json").read_text(encoding="utf-8")


def test_the_command_prints_json(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "recipe.toml"
    path.write_text(
        f'backbone = "{recipe.backbone}"\nmax_context = 4000\n'
        '[stage_one]\nbatch = 2\n[run]\ndevice = "cpu"\ndtype = "float32"\n',
        encoding="utf-8",
    )
    asked = ["bench", "train", str(path), "--corpus", str(corpus), "--first"]
    once = ("--updates", "1", "--warm-up", "1", "--tokens-per-pass", "5000", "--json")
    assert main([*asked, *once]) == 0
    assert json.loads(capsys.readouterr().out)["updates"] == 1
    assert main([*asked, "--updates", "0"]) == 2
    assert main([*asked, "--warm-up", "-1"]) == 2
