"""Equivalence classes of training runs: settings that must give the same trajectory."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from waggle.core.errors import ConfigError
from waggle.core.protocols import Request
from waggle.corpus.store import CorpusError, Store
from waggle.laws.digest import digest, look
from waggle.models.load import load
from waggle.plugins import get_law
from waggle.scd.config import Recipe
from waggle.scd.data.flats import laid
from waggle.scd.data.records import labelled
from waggle.scd.diagnose.diagnose import law_of
from waggle.scd.diagnose.findings import Findings, diagnose_folder, diagnose_law, load_student
from waggle.scd.forward.forward import flat_states, output_of
from waggle.scd.run.stages import Stages
from waggle.scd.train import checkpoint
from waggle.scd.train.checkpoint import TrainError, read_tensors
from waggle.scd.train.optimizer import rate_factor
from waggle.scd.train.trainer import Trainer


def changed(recipe: Recipe, **parts: dict[str, object]) -> Recipe:
    data = recipe.model_dump()
    for part, values in parts.items():
        data[part] |= values
    return Recipe.model_validate(data)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "checkpoints" / "update-000004" / "trainable.safetensors")


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def started(recipe: Recipe, corpus: Path, warm: Path, tmp_path: Path) -> Path:
    """A run folder with a finished warm start, shared by the tests of this session."""
    Stages(recipe, corpus, warm, 0).warm_start()
    target = tmp_path / "seed-0"
    target.mkdir()
    (target / "warm-start").symlink_to(warm / "seed-0" / "warm-start")
    return tmp_path


def test_the_law_of_another_recipe_is_not_taken_for_its_own(
    recipe: Recipe, corpus: Path, started: Path
) -> None:
    other = recipe.model_copy(update={"name": "other"})
    with pytest.raises(ConfigError, match=f"trained by recipe '{recipe.name}'.*another --out"):
        Stages(other, corpus, started, 0).warm_start()


def test_the_warm_start_learns_and_ships_an_adapter(
    recipe: Recipe, corpus: Path, warm: Path
) -> None:
    law = Stages(recipe, corpus, warm, 0).warm_start()
    names = {p.name for p in law.iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} <= names
    lines = (law.parent / "metrics.jsonl").read_text().splitlines()
    values = [json.loads(line) for line in lines]
    assert [v["update"] for v in values] == [0, 1, 2, 3]
    assert values[-1]["nll"] < values[0]["nll"]
    assert "teacher | expert" in (law / "README.md").read_text()


def test_the_least_validation_loss_selects_what_ships(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 1.0])
    monkeypatch.setattr(Trainer, "_measure", lambda _self: (next(losses), 1.0))
    often = changed(recipe, run={"evaluate_every": 1, "save_every": 1}, stage_one={"updates": 4})
    Stages(often, corpus, tmp_path, 0).warm_start(until=2)
    second = tmp_path / "seed-0/warm-start/checkpoints/update-000002/trainable.safetensors"
    want = read_tensors(second)
    losses = iter([2.0, 4.0])
    law = Stages(often, corpus, tmp_path, 0).warm_start()
    told = json.loads((law / "waggle.json").read_text())["card"]
    assert (told["selected update"], told["validation NLL per token"]) == (2, 1.0)
    best = read_tensors(law.parent / "best" / "trainable.safetensors")
    last = weights(law.parent)
    assert all(torch.equal(best[name], want[name]) for name in want)
    assert any(not torch.equal(best[name], last[name]) for name in want)


def test_a_zero_weight_arm_is_decision_only(recipe: Recipe, corpus: Path, started: Path) -> None:
    Stages(recipe, corpus, started, 0).arm("decision")
    zero = changed(recipe, stage_two={"lambda_orbit": 0.0, "lambda_field": 0.0})
    Stages(zero, corpus, started, 0).arm("scd")
    one, other = weights(started / "seed-0/decision"), weights(started / "seed-0/scd")
    assert all(torch.equal(one[name], other[name]) for name in one)
    Stages(recipe, corpus, started, 0).arm("orbit")
    third = weights(started / "seed-0/orbit")
    assert any(not torch.equal(one[name], third[name]) for name in one)


def test_accumulated_gradients_equal_those_of_one_pass(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    still = changed(recipe, adaptation={"dropout": 0.0})
    found = []
    for name, budget in (("one", 100_000), ("many", 1_500)):
        small = changed(still, run={"tokens_per_pass": budget})
        Stages(small, corpus, tmp_path / name, 0).warm_start()
        found.append(weights(tmp_path / name / "seed-0" / "warm-start"))
    for name, one in found[0].items():
        assert torch.allclose(one, found[1][name], atol=2e-5), name


@pytest.mark.parametrize("stop", [1, 3])
def test_resume_is_the_uninterrupted_run(
    recipe: Recipe, corpus: Path, started: Path, tmp_path_factory: pytest.TempPathFactory, stop: int
) -> None:
    whole = Stages(recipe, corpus, started, 0).arm("scd").parent
    out = tmp_path_factory.mktemp("resume")
    (out / "seed-0").mkdir()
    (out / "seed-0" / "warm-start").symlink_to(started / "seed-0" / "warm-start")
    Stages(recipe, corpus, out, 0).arm("scd", until=stop)
    assert not (out / "seed-0/scd/law").exists()
    part = Stages(recipe, corpus, out, 0).arm("scd").parent
    one, other = weights(whole), weights(part)
    assert all(torch.equal(one[name], other[name]) for name in one)
    told = [json.loads(x) for x in (part / "metrics.jsonl").read_text().splitlines()]
    assert [v["update"] for v in told] == [0, 1, 2, 3]
    first = [json.loads(x)["nll"] for x in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [v["nll"] for v in told] == first


def test_a_kill_while_saving_leaves_the_older_checkpoint(
    recipe: Recipe, corpus: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = Stages(recipe, corpus, started, 0)
    stages.arm("field", until=2)
    real = checkpoint.write_tensors

    def full(path: Path, tensors: object) -> None:
        if "update-000003" in str(path):
            raise OSError(28, "No space left on device")
        real(path, tensors)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    with pytest.raises(TrainError, match=r"No space left on device.*resume") as error:
        stages.arm("field", until=3)
    assert "\n" not in str(error.value)
    folder = started / "seed-0/field/checkpoints"
    assert sorted(p.name for p in folder.iterdir())[-1] == "update-000002"
    monkeypatch.undo()
    assert Stages(recipe, corpus, started, 0).arm("field").name == "law"


def test_a_run_with_other_settings_is_not_resumed(
    recipe: Recipe, corpus: Path, started: Path
) -> None:
    Stages(recipe, corpus, started, 0).arm("orbit", until=1)
    other = changed(recipe, stage_two={"beta": 0.3})
    with pytest.raises(TrainError, match="other settings"):
        Stages(other, corpus, started, 0).arm("orbit")


def test_heads_are_not_part_of_what_is_shipped_and_do_not_change_a_decode(
    recipe: Recipe, corpus: Path, started: Path
) -> None:
    law = Stages(recipe, corpus, started, 0).arm("scd")
    shipped = read_tensors(law / "adapter_model.safetensors")
    assert shipped and all("lora_" in name for name in shipped)
    views = [r.view for r in labelled(Store(corpus).examples("decisions", "test"))][:3]
    options = {"device": "cpu", "dtype": "float32", "max_new_tokens": 24}
    found = [d.output for d in law_of(law, **options).decide([Request(v) for v in views])]
    (law.parent / "best" / "heads.safetensors").unlink()
    again = [d.output for d in law_of(law, **options).decide([Request(v) for v in views])]
    assert found == again


def test_diagnosis_names_every_measure(recipe: Recipe, corpus: Path, started: Path) -> None:
    law = Stages(recipe, corpus, started, 0).arm("scd")
    findings = Findings(Store(corpus), views=3, native=0, seed=0, evaluation_seed=20_000)
    player = law_of(law, mode="constrained", device="cpu", dtype="float32")
    result = diagnose_law(findings, player, "shuffled") | diagnose_folder(findings, law, 8)
    assert result["weights"] == digest(look(recipe.backbone, str(law))) != ""
    assert "weights" not in diagnose_law(findings, get_law("heuristic"), "shuffled")
    assert result["synthetic executable"] == 1.0
    assert result["equivariance canonical admitted"] == 1.0
    for name in ("probe all", "probe eventful", "train head orbit_accuracy", "train head field"):
        assert math.isfinite(result[name])


@pytest.mark.parametrize("kind", ["dense", "full"])
def test_other_adaptations_ship_what_they_trained(
    recipe: Recipe, corpus: Path, tmp_path: Path, kind: str
) -> None:
    small = changed(recipe, adaptation={"kind": kind, "rank": 32}, stage_one={"updates": 2})
    law = Stages(small, corpus, tmp_path, 0).warm_start()
    views = [r.view for r in labelled(Store(corpus).examples("decisions", "test"))][:1]
    options = {"device": "cpu", "dtype": "float32", "max_new_tokens": 8}
    assert law_of(law, **options).decide([Request(v) for v in views])[0].usage.calls == 1
    shipped = "adapter_model.safetensors" if kind == "dense" else "model.safetensors"
    assert (law / shipped).exists()


def test_weights_that_go_on_from_a_law_have_its_backbone(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    small = changed(recipe, adaptation={"kind": "full"}, stage_one={"updates": 2})
    first = Stages(small, corpus, tmp_path / "first", 0).warm_start()
    again = small.model_copy(update={"backbone": str(first)})
    law = Stages(again, corpus, tmp_path / "second", 0).warm_start()
    told = json.loads((law / "waggle.json").read_text())
    assert told["backbone"] == recipe.backbone
    assert told["card"]["goes on from"] == told["recipe"]["backbone"] == str(first)
    before, after = (load(str(folder), "cpu", "float32")[0].state_dict() for folder in (first, law))
    assert before.keys() == after.keys()
    assert sum(float((before[name] - after[name]).norm()) for name in before) > 0


def test_rank_stabilised_adapters_are_scaled_alike_in_training_and_decoding(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    chosen = changed(recipe, adaptation={"rslora": True}, stage_one={"updates": 2, "rate": 0.05})
    law = Stages(chosen, corpus, tmp_path, 0).warm_start()
    assert json.loads((law / "adapter_config.json").read_text())["use_rslora"] is True
    student = load_student(law)
    student.model.eval()
    ids = np.arange(10, 40)
    flat = laid(ids, np.array([30]), np.array([20]), device="cpu")
    loaded = [load(recipe.backbone, "cpu", "float32", on)[0] for on in (str(law), None)]
    with torch.no_grad():
        want = output_of(student.model)(flat_states(student.model, flat))[:29]
        got, base = (m(input_ids=torch.from_numpy(ids)[None]).logits[0, :29] for m in loaded)
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(got, base, atol=1e-2)


def test_canonical_order_trains_on_one_text_per_pair(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    small = changed(recipe, stage_one={"updates": 1}, stage_two={"updates": 1})
    both = {}
    for order in ("shuffled", "canonical"):
        ordered = small.model_copy(update={"order": order})
        stages = Stages(ordered, corpus, tmp_path / order, 0)
        stages.warm_start()
        folder = stages.arm("scd").parent
        both[order] = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])["tokens"]
    assert both["canonical"] < 0.75 * both["shuffled"]


def test_a_missing_warm_start_or_split_is_one_line(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(TrainError, match="train that stage"):
        Stages(recipe, corpus, tmp_path, 0).arm("scd")
    with pytest.raises(CorpusError, match="waggle corpus build"):
        Stages(recipe, tmp_path / "none", tmp_path, 0).warm_start()


def test_learning_rates_rise_and_fall(recipe: Recipe) -> None:
    stage = recipe.stage_one.model_copy(update={"updates": 10, "rate_warm_up": 2})
    factors = [rate_factor(stage, u) for u in range(10)]
    assert factors[:3] == [0.5, 1.0, 1.0]
    assert factors[2:] == sorted(factors[2:], reverse=True)
