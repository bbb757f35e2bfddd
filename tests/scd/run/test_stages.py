"""Both stages of a run: what is kept, resumed and refused, and which warm start arms begin with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.scd.runs import same
from waggle.cli.main import main
from waggle.cli.training.train import train
from waggle.core.errors import ConfigError
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.store import CorpusError
from waggle.scd.config import Adaptation, Recipe, Run, StageOne, read_recipe
from waggle.scd.files import TrainError, read_tensors
from waggle.scd.run import factorial
from waggle.scd.run.stages import BEGAN_WITH, Stages, warm_start_digest
from waggle.scd.train.trainer import Trainer

TOML = """
name = "test"
backbone = "nano"
[harvest]
native = 100
"""


def test_a_warm_start_that_does_not_fit_is_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    recipe, out, start = tmp_path / "r.toml", tmp_path / "run", tmp_path / "warm-start"
    recipe.write_text(TOML)
    with pytest.raises(ConfigError, match="no whole warm start; leave --start out"):
        train(recipe, out=out, start=start)
    (start / "law").mkdir(parents=True)
    (start / "best").mkdir()
    (start / "best" / "trainable.safetensors").touch()
    own = Recipe(name="test", backbone="nano").model_dump(mode="json")
    for name, other, told in (
        ("name", "other", "trained with recipe 'other', not 'test'; leave --start out"),
        ("backbone", "tiny-random", "backbone 'tiny-random', not 'nano'"),
        ("order", "canonical", "order 'canonical', not 'shuffled'"),
        ("adaptation", {"kind": "full"}, "adaptation 'full', not 'lora'"),
    ):
        about = {"recipe": own | {name: other}}
        (start / "law" / "waggle.json").write_text(json.dumps(about))
        with pytest.raises(ConfigError, match=told):
            train(recipe, out=out, start=start)
    with pytest.raises(ConfigError, match="--start leaves stage one out"):
        train(recipe, out=out, start=start, arm="warm-start")
    assert not out.exists()


def test_an_arm_with_another_warm_start_is_neither_resumed_nor_counted(
    recipe: Recipe, corpus: Path, trained: Path, tmp_path: Path
) -> None:
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "arms"
    for start in (one, two):
        shutil.copytree(trained / "seed-0" / "warm-start", start)
    config = json.loads((two / "law" / "adapter_config.json").read_text())
    (two / "law" / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 9}))
    Stages(recipe, corpus, out, 0, start=one).arm("decision", until=2)
    with pytest.raises(TrainError, match="other settings; choose another --out"):
        Stages(recipe, corpus, out, 0, start=two).arm("decision")
    law = Stages(recipe, corpus, out, 0, start=one).arm("decision")
    with pytest.raises(ConfigError, match="began with another warm start"):
        Stages(recipe, corpus, out, 0, start=two).arm("decision")
    first, second = (
        factorial.cells(recipe, corpus, out, [0], views=1, native=0, start=each)[0]
        for each in (one, two)
    )
    kept = {factorial.ASKED: first.asked(), BEGAN_WITH: warm_start_digest(one)}
    first.result.write_text(json.dumps(kept))
    assert first.kept() == kept and second.kept() is None
    Stages(recipe, corpus, out, 0, start=one).tidy(law)
    assert (one / "checkpoints").exists(), "another run's folder"
    shutil.rmtree(one)
    assert Stages(recipe, corpus, out, 0, start=one).arm("decision") == law


def test_the_law_of_another_recipe_is_not_taken_for_its_own(
    recipe: Recipe, corpus: Path, started: Path
) -> None:
    other = recipe.model_copy(update={"name": "other"})
    with pytest.raises(ConfigError, match=f"trained by recipe '{recipe.name}'.*another --out"):
        Stages(other, corpus, started, 0).warm_start()


def test_the_warm_start_learns_and_ships_an_adapter(
    recipe: Recipe, corpus: Path, started: Path
) -> None:
    law = Stages(recipe, corpus, started, 0).warm_start()
    names = {p.name for p in law.iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} <= names
    lines = (law.parent / "metrics.jsonl").read_text().splitlines()
    values = [json.loads(line) for line in lines]
    assert [v["update"] for v in values] == [0, 1, 2, 3]
    assert values[-1]["nll"] < values[0]["nll"]
    assert "teacher | expert" in (law / "README.md").read_text()


def test_a_missing_warm_start_or_split_is_one_line(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(TrainError, match="train that stage"):
        Stages(recipe, corpus, tmp_path, 0).arm("scd")
    with pytest.raises(CorpusError, match="waggle corpus build"):
        Stages(recipe, tmp_path / "none", tmp_path, 0).warm_start()


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


def harvested(backbone: Path, **stage: float) -> Recipe:
    """Return a recipe whose stage one reads a token corpus."""
    settings = HarvestSettings(
        tasks=("beacon",), native=60, synthetic=80, held_out=8, n=(6,), rounds=6, made_up=50
    )
    return Recipe(
        backbone=str(backbone), order="canonical", max_context=1024, harvest=settings,
        adaptation=Adaptation(kind="full"),
        stage_one=StageOne.model_validate({"updates": 4, "batch": 4, "rate": 1e-2,
                                           "rate_warm_up": 1, **stage}),
        run=Run(device="cpu", dtype="float32", evaluate_every=2, save_every=2,
                validation_records=8),
    )  # fmt: skip


def test_stage_one_on_a_token_corpus_resumes_to_the_same_law_or_ends_with_its_time(
    backbone: Path, tmp_path: Path
) -> None:
    recipe, nothing = harvested(backbone), tmp_path / "none"
    whole = Stages(recipe, nothing, tmp_path / "a", 0).warm_start()
    for out in "bc":
        shutil.copytree(tmp_path / "a" / "tokens", tmp_path / out / "tokens")
    Stages(recipe, nothing, tmp_path / "b", 0).warm_start(until=2)
    law = Stages(recipe, nothing, tmp_path / "b", 0).warm_start()
    names = sorted(path.name for path in whole.glob("*.safetensors"))
    assert names and law == tmp_path / "b" / "seed-0" / "warm-start" / "law"
    for name in names:
        one, other = read_tensors(whole / name), read_tensors(law / name)
        assert same(one, other) and {str(t.dtype) for t in one.values()} == {"torch.bfloat16"}
    timed = harvested(backbone, updates=100_000, seconds=0.3)
    law = Stages(timed, nothing, tmp_path / "c", 0).warm_start()
    assert (law / "config.json").exists()
    card = (law / "README.md").read_text()
    assert "| stage one | 0.3 seconds, at most 100000 updates of 4 records |" in card
    assert "| tokens | of 60 native views, 80 synthetic views at most |" in card
    assert "| corpus |" not in card, "it has not read one"
