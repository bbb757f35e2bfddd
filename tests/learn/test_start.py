"""The law that learning starts from: what is trained begins as what plays."""

import json
from pathlib import Path

import pytest
import torch

from tests.backbones import save_backbone
from waggle.learn.config import Settings
from waggle.learn.rollout import Player
from waggle.learn.start import Start, find_start, open_model, open_student, plain_weights
from waggle.models import adapters
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Adaptation
from waggle.scd.files import read_tensors, write_tensors
from waggle.scd.ship import low_rank

NAMES = [f"model.layers.{layer}.self_attn.q_proj.weight" for layer in (0, 1)]


@pytest.mark.parametrize("shards", [1, 2])
def test_an_adapter_goes_on_from_its_factors(tmp_path: Path, shards: int) -> None:
    pytest.importorskip("peft", reason="needs the llm extra")
    backbone = save_backbone(tmp_path / "backbone", nano_tokenizer())
    law = tmp_path / "law"
    law.mkdir()
    pairs = {name: (torch.randn(8, 32), torch.randn(32, 8)) for name in NAMES}
    low_rank.write(law, pairs, str(backbone), Adaptation(rank=8, alpha=8, targets=("q_proj",)))
    said = json.loads((law / adapters.CONFIG).read_text())
    unnamed = {name: value for name, value in said.items() if name not in ("r", "lora_alpha")}
    (law / adapters.CONFIG).write_text(json.dumps(unnamed if shards > 1 else said))  # PEFT's own
    if shards > 1:  # as adapters ship that are too large for one file
        tensors = read_tensors(law / adapters.WHOLE)
        (law / adapters.WHOLE).unlink()
        files = {name: f"{number}.safetensors" for number, name in enumerate(tensors)}
        for name, file in files.items():
            write_tensors(law / file, {name: tensors[name]})
        (law / adapters.INDEX).write_text(json.dumps({"weight_map": files}))

    start = Start("law", str(backbone), str(law), "canonical", "none", "tiny")
    machine = {"device": "cpu", "dtype": "float32"}
    settings = Settings.model_validate({"tasks": ["beacon"], "machine": machine})
    student = open_student(start, settings, 0)
    found = plain_weights(student)
    played = dict(open_model(start, "cpu", "float32")[0].named_parameters())
    assert found.keys() == set(NAMES)
    assert all(torch.allclose(found[name], played[name], atol=1e-6) for name in NAMES)


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "float32"])
def test_playing_and_training_compute_in_one_precision(tmp_path: Path, dtype: str) -> None:
    """Whatever the processor computes in natively."""
    backbone = save_backbone(tmp_path, nano_tokenizer())
    settings = Settings.model_validate(
        {
            "tasks": ["beacon"], "start": "scratch", "backbone": str(backbone),
            "machine": {"device": "cpu", "dtype": dtype},
        }
    )  # fmt: skip
    start = find_start(settings)
    played = next(Player(start, settings)._model.parameters())
    assert played.dtype == open_student(start, settings, 0).dtype
