"""Warm starts that are given: refused at once where they do not fit, one for all arms."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from waggle.cli.training.train import train
from waggle.core.errors import ConfigError
from waggle.scd.config import Recipe
from waggle.scd.run import factorial, starts
from waggle.scd.run.stages import Stages
from waggle.scd.train.checkpoint import TrainError

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
    (start / starts.WEIGHTS).touch()
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
    for wrong in ({"arm": "warm-start"}, {"harvest": tmp_path}):
        with pytest.raises(ConfigError, match="--start leaves stage one out"):
            train(recipe, out=out, start=start, **wrong)  # type: ignore[arg-type]
    assert not out.exists()


def test_an_arm_with_another_warm_start_is_neither_resumed_nor_counted(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    search, out = tmp_path / "search", tmp_path / "arms"
    for seed in (1000, 1001):
        Stages(recipe, corpus, search, seed).warm_start()
    one, two = (search / f"seed-{seed}" / "warm-start" for seed in (1000, 1001))
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
    kept = {factorial.ASKED: first.asked(), starts.BEGUN: starts.name(one)}
    first.result.write_text(json.dumps(kept))
    assert first.kept() == kept and second.kept() is None
    Stages(recipe, corpus, out, 0, start=one).tidy(law)
    assert (one / "checkpoints").exists(), "another run's folder"
    shutil.rmtree(one)
    assert Stages(recipe, corpus, out, 0, start=one).arm("decision") == law
