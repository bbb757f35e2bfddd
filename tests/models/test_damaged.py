"""A folder without a whole model is refused in one line; nothing is made up for what it lacks."""

import json
from pathlib import Path
from typing import Any

import pytest

from waggle.core.errors import ConfigError
from waggle.engine.model.config import supports
from waggle.models.bare import open_bare
from waggle.models.load import load_to_decode


def say(folder: Path, **changes: Any) -> None:
    """Change what the configuration says."""
    place = folder / "config.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **changes}))


def refusal(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_to_decode(str(folder), supports, "cpu", "float32")
    line = str(caught.value)
    assert "\n" not in line and "again" in line and str(folder) in line
    return line


def test_weights_that_are_cut(folder: Path) -> None:
    place = folder / "model.safetensors"
    place.write_bytes(place.read_bytes()[:200_000])
    refusal(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_files_that_are_missing(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refusal(folder)


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"model_type":"no such"}'])
def test_configurations_that_are_none(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    refusal(folder)


def test_weights_of_another_kind_of_model(folder: Path) -> None:
    sizes = {"hidden_size": 8, "intermediate_size": 8, "vocab_size": 9, "num_hidden_layers": 1}
    sizes |= {"num_attention_heads": 1}
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **sizes}))
    assert "lacks weights" in refusal(folder)


@pytest.mark.parametrize(
    "change",
    [{"num_hidden_layers": 3}, {"hidden_size": 128}, {"intermediate_size": 80}, {"vocab_size": 99},
     {"num_attention_heads": 8}, {"num_key_value_heads": 1}, {"head_dim": 32}],
)  # fmt: skip
def test_weights_that_are_not_those_of_the_configuration(
    folder: Path, change: dict[str, int]
) -> None:
    import torch

    assert open_bare(folder, "cpu", torch.float32, supports) is not None
    say(folder, **change)
    assert open_bare(folder, "cpu", torch.float32, supports) is None
    refusal(folder)
