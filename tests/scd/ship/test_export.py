"""Exported laws: what was trained is what ships, in the format that decoding reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.scd.runs import changed
from waggle.core.protocols import Request
from waggle.corpus.store import Store
from waggle.laws.digest import digest, look
from waggle.models.load import load
from waggle.scd.config import Recipe
from waggle.scd.data.records import labelled
from waggle.scd.diagnose.law import law_of, load_student
from waggle.scd.files import read_tensors
from waggle.scd.forward.ragged import lay_out
from waggle.scd.forward.run import final_states, output_of
from waggle.scd.model import Student
from waggle.scd.run.stages import Stages
from waggle.scd.ship.export import export


def decodes(law: Path, corpus: Path) -> bool:
    views = [r.view for r in labelled(Store(corpus).examples("decisions", "test"))][:1]
    options = {"device": "cpu", "dtype": "float32", "max_new_tokens": 8}
    found = law_of(law, **options).decide([Request(view) for view in views])
    return found[0].usage.calls == 1


def test_trained_matrices_ship_as_an_adapter(recipe: Recipe, corpus: Path, tmp_path: Path) -> None:
    small = changed(recipe, adaptation={"kind": "dense", "rank": 32}, stage_one={"updates": 2})
    law = Stages(small, corpus, tmp_path, 0).warm_start()
    _check_that_vllm_reads(law)
    assert decodes(law, corpus)
    assert "library_name: peft\n" in (law / "README.md").read_text()


def test_all_weights_ship_and_those_that_go_on_from_a_law_have_its_backbone(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    small = changed(recipe, adaptation={"kind": "full"}, stage_one={"updates": 2})
    first = Stages(small, corpus, tmp_path / "first", 0).warm_start()
    assert (first / "model.safetensors").exists() and decodes(first, corpus)
    assert "library_name: transformers\n" in (first / "README.md").read_text()
    again = small.model_copy(update={"backbone": str(first)})
    law = Stages(again, corpus, tmp_path / "second", 0).warm_start()
    told = json.loads((law / "waggle.json").read_text())
    assert told["backbone"] == recipe.backbone
    assert told["card"]["goes on from"] == told["recipe"]["backbone"] == str(first)
    before, after = (load(str(folder), "cpu", "float32")[0].state_dict() for folder in (first, law))
    assert before.keys() == after.keys()
    assert sum(float((before[name] - after[name]).norm()) for name in before) > 0


def _check_that_vllm_reads(law: Path) -> None:
    """Check what `vllm serve --enable-lora --lora-modules law=FOLDER` asks of a folder."""
    said = json.loads((law / "adapter_config.json").read_text())
    assert isinstance(said["r"], int) and isinstance(said["lora_alpha"], int)
    assert said["target_modules"] and said["bias"] == "none"
    for unread in ("modules_to_save", "use_dora", "rank_pattern", "alpha_pattern"):
        assert not said.get(unread), unread
    tensors = read_tensors(law / "adapter_model.safetensors")  # one file, not shards
    place = re.compile(
        r"base_model\.model\.model\.layers\.\d+\.\w+\.([qkvo]|gate|up|down)_proj\.lora_[AB]\.weight"
    )
    assert tensors and all(place.fullmatch(name) for name in tensors)
    ranks = {weight.shape[1 if "lora_B" in name else 0] for name, weight in tensors.items()}
    assert ranks == {said["r"]}


def test_equal_weights_ship_as_one_law(recipe: Recipe, tmp_path: Path) -> None:
    """PEFT keeps its targets in a set, whose order differs from process to process."""
    student = Student(recipe, 0)
    told = student.model.peft_config["default"]
    forward = sorted(told.target_modules)
    digests = set()
    for name, order in (("one", forward), ("two", forward[::-1])):
        told.target_modules = order
        law = export(student, tmp_path / name, {})
        digests.add(digest(look(recipe.backbone, str(law))))
        _check_that_vllm_reads(law)
    assert len(forward) > 1 and len(digests) == 1 and "" not in digests


@pytest.mark.parametrize("rslora", [True, False])
def test_adapters_are_scaled_alike_in_training_and_decoding(
    recipe: Recipe, corpus: Path, tmp_path: Path, rslora: bool
) -> None:
    chosen = changed(recipe, adaptation={"rslora": rslora}, stage_one={"updates": 2, "rate": 0.05})
    law = Stages(chosen, corpus, tmp_path, 0).warm_start()
    assert json.loads((law / "adapter_config.json").read_text())["use_rslora"] is rslora
    student = load_student(law)
    student.model.eval()
    ids = np.arange(10, 40)
    batch = lay_out(ids, np.array([30]), np.array([20]), device="cpu")
    loaded = [load(recipe.backbone, "cpu", "float32", on)[0] for on in (str(law), None)]
    with torch.no_grad():
        want = output_of(student.model)(final_states(student.model, batch))[:29]
        got, base = (m(input_ids=torch.from_numpy(ids)[None]).logits[0, :29] for m in loaded)
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(got, base, atol=1e-2)
