"""Diagnosis of a trained folder: every measure is there, and heads take no part in decisions."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from waggle.core.protocols import Request
from waggle.corpus.store import Store
from waggle.laws.digest import digest, look
from waggle.plugins import get_law
from waggle.scd.config import Recipe
from waggle.scd.data.records import labelled
from waggle.scd.diagnose import probe
from waggle.scd.diagnose.law import Findings, diagnose_folder, diagnose_law, law_of, trained_by
from waggle.scd.files import read_tensors


def test_diagnosis_names_every_measure(
    recipe: Recipe, corpus: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "UPDATES", 30)
    law = trained / "seed-0/scd/law"
    findings = Findings(Store(corpus), views=2, native=0, seed=0)
    player = law_of(law, mode="constrained", device="cpu", dtype="float32")
    result = diagnose_law(findings, player, "shuffled") | diagnose_folder(findings, law, 8)
    assert result["weights"] == digest(look(recipe.backbone, str(law))) != ""
    assert "weights" not in diagnose_law(findings, get_law("heuristic"), "shuffled")
    assert result["synthetic executable"] == 1.0
    assert result["equivariance canonical admitted"] == 1.0
    for name in ("probe all", "probe eventful", "train head orbit_accuracy", "train head field"):
        assert math.isfinite(result[name])


def test_heads_are_not_part_of_what_is_shipped_and_do_not_change_a_decode(
    corpus: Path, trained: Path, tmp_path: Path
) -> None:
    shipped = read_tensors(trained / "seed-0/scd/law/adapter_model.safetensors")
    assert shipped and all("lora_" in name for name in shipped)
    law = tmp_path / "scd" / "law"
    shutil.copytree(trained / "seed-0/scd", law.parent)
    views = [r.view for r in labelled(Store(corpus).examples("decisions", "test"))][:2]
    options = {"device": "cpu", "dtype": "float32", "max_new_tokens": 12}
    found = [d.output for d in law_of(law, **options).decide([Request(v) for v in views])]
    (law.parent / "best" / "heads.safetensors").unlink()
    again = [d.output for d in law_of(law, **options).decide([Request(v) for v in views])]
    assert found == again


def test_a_law_that_says_nothing_is_trained_by_an_unknown_recipe(
    trained: Path, tmp_path: Path
) -> None:
    assert trained_by(tmp_path) == "unknown"
    (tmp_path / "waggle.json").write_text('{"card": {}, "recipe": {"stage_one": 7}}')
    assert trained_by(tmp_path) == "unknown"
    said = trained_by(trained / "seed-0/scd/law")
    assert "lora of rank 4" in said and "4 updates of 3 records and 2 transitions" in said
