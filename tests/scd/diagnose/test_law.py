"""Diagnosis of a trained folder: every measure is there, and heads take no part in decisions."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from waggle.core.modes import Mode
from waggle.core.protocols import Decode, Request
from waggle.core.schema import Contract, Decision, Port, Private, Proposal, View
from waggle.corpus.store import Store
from waggle.laws.digest import digest, look
from waggle.plugins import get_law
from waggle.scd.config import Recipe
from waggle.scd.data.records import labelled
from waggle.scd.diagnose import probe
from waggle.scd.diagnose.equivariance import agreements
from waggle.scd.diagnose.law import (
    Findings,
    diagnose_folder,
    diagnose_law,
    f1_by_mode,
    law_of,
    load_student,
    trained_by,
)
from waggle.scd.files import read_tensors
from waggle.scd.run.agent_distillation import DistillRecipe


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
    assert result["equivariance shuffled decoded_strict"] <= result["equivariance shuffled decoded"]
    by_mode = [value for name, value in result.items() if name.startswith("synthetic f1 ")]
    assert sum(by_mode) / len(by_mode) == pytest.approx(result["synthetic mode_f1"])
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


def test_a_law_of_agent_distillation_is_read_as_any_other(
    recipe: Recipe, trained: Path, tmp_path: Path
) -> None:
    law = tmp_path / "warm-start" / "law"
    shutil.copytree(trained / "seed-0/warm-start", law.parent)
    said = json.loads((law / "waggle.json").read_text())
    more = DistillRecipe.model_validate(recipe.model_dump()).model_dump(mode="json")
    (law / "waggle.json").write_text(json.dumps(said | {"recipe": more}))
    assert trained_by(law) == trained_by(trained / "seed-0/warm-start/law")
    assert load_student(law).recipe.name == recipe.name


class _First:
    """Picks the first contact that a view lists, a choice that its order makes."""

    name = "first"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        ports = [request.view.private.channels[0].channel for request in requests]
        return [Decode(Decision(f"PICK:{port}", None, (), None)) for port in ports]


def test_records_that_nothing_tells_apart_agree_modulo_ties_alone() -> None:
    contract = Contract("t", "pick one", ("PICK:@channel", "WAIT"))
    private = Private({}, channels=(Port("h0", 1), Port("h1", 1)))
    view = View(contract, private, Proposal("WAIT"), (), None, 3)
    found = agreements(_First(), [view] * 16, "shuffled")
    assert all(each.tie and each.summary and each.decoded and each.admitted for each in found)
    assert {(each.decoded_strict, each.admitted_strict) for each in found} == {
        (True, True), (False, False),
    }  # fmt: skip
    unlike = Private({}, channels=(Port("h0", 1), Port("h1", 2)))
    other = agreements(_First(), [msgspec.structs.replace(view, private=unlike)] * 16, "shuffled")
    assert all(each.decoded == each.decoded_strict for each in other)
    assert {each.decoded for each in other} == {True, False}


def test_f1_of_a_mode_counts_misses_and_false_alarms() -> None:
    pairs = [(Mode.RELAY, Mode.RELAY), (Mode.RELAY, Mode.DEPOSIT), (None, Mode.RELAY)]
    assert f1_by_mode(pairs) == {Mode.DEPOSIT: 0.0, Mode.RELAY: 0.5}
