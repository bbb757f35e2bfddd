"""`waggle tune` as a user types it: what it refuses, trains, writes and says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.backbones import save_backbone
from tests.cli.conftest import Command, refused
from waggle.corpus.store import Store
from waggle.models.nano import nano_tokenizer
from waggle.scd.files import TrainError
from waggle.scd.run import tune as search
from waggle.scd.run.tune import Candidate

ROOT = Path(__file__).parents[3]
SMALL = """
name = "small"
backbone = "{backbone}"
max_context = 4000
[corpus]
tasks = ["beacon"]
bundles = 2
validation = 1
test = 1
native = 4
n = [6]
rounds = 6
[transitions]
law = "nobody"
[adaptation]
rank = 4
alpha = 8
[stage_one]
updates = 2
batch = 2
[stage_two]
updates = 4
batch = 2
rate = 1e-5
[run]
device = "cpu"
dtype = "float32"
evaluate_every = 2
validation_records = 3
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe whose transitions nobody could play."""
    backbone = save_backbone(tmp_path / "backbone", nano_tokenizer())
    path = tmp_path / "small.toml"
    path.write_text(SMALL.format(backbone=backbone), encoding="utf-8")
    return path


def test_the_rate_with_the_least_loss_is_chosen_and_told(
    waggle: Command, recipe: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("tune", recipe, "--rates", "1e-2,1e-6,1e-4", "--updates", 2, "--out", out)
    said = waggle(*words)
    assert said.code == 0, said.err
    told = json.loads((out / "tune.json").read_text())
    rows = told["candidates"]
    assert [row["rate"] for row in rows] == [1e-6, 1e-4, 1e-2]
    assert told["chosen"] == min(rows, key=lambda row: (row["best"], row["rate"]))
    assert told["chosen"]["rate"] == 1e-2 and told["at the end of"] == ["rate"]
    assert (
        "lora), order shuffled, teacher expert, training seed 1000, 3 validation records"
        in said.out
    )
    (line,) = (line for line in said.out.splitlines() if line.endswith("| yes |"))
    assert line.startswith(f"| 4 | 0.01 | 2 | {told['chosen']['best']:.5f} |")
    assert told["command"] in said.out
    assert "the chosen rate is at the end of those tried" in said.out
    assert said.out.splitlines()[-1] == told["advice"]
    assert told["advice"].endswith("write rate = 0.01 in [stage_two] (it has 1e-05)")
    assert "transitions" not in Store(out / "corpus").manifest().parts

    recipe.write_text(recipe.read_text().replace("rate = 1e-5", "rate = 1e-2"))
    again = waggle(*words, "--json")
    assert again.code == 0 and again.data["candidates"] == rows
    assert again.data["advice"] == (f"{recipe} has what was chosen: [stage_two] rate = 0.01")
    line = refused(waggle(*words[:4], "--updates", 3, "--out", out))
    assert "holds a search with other settings; choose another --out" in line


def test_a_lost_candidate_is_named_and_the_rest_is_chosen_from(
    waggle: Command, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = search._trained

    def broken(candidate: Candidate) -> dict[str, Any]:
        if candidate.rate == 1e-2:
            raise TrainError("the loss is not finite; lower the learning rate in the recipe")
        return real(candidate)

    monkeypatch.setattr(search, "_trained", broken)
    out = tmp_path / "out"
    said = waggle("tune", recipe, "--rates", "1e-5,1e-2", "--updates", 1, "--out", out)
    assert said.code == 1
    assert "lost: rate 0.01: the loss is not finite" in said.out
    assert [line for line in said.out.splitlines() if line.startswith("| 4 | 1e-05")]
    assert f"{recipe} has what was chosen" in said.out
    alone = waggle("tune", recipe, "--rates", "1e-2", "--updates", 1, "--out", out)
    assert alone.code == 2 and "no candidate could be trained" in alone.err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "--rates needs a value"),
        (("--rates", "0"), "--rates takes rates above 0 and at most 1"),
        (("--rates", "1e-4,2"), "--rates takes rates above 0 and at most 1"),
        (("--rates", "nan"), "--rates takes rates above 0 and at most 1"),
        (("--rates", "1e-4,"), "--rates takes rates above 0 and at most 1"),
        (("--rates", "1e-4", "--seed", "4"), "--seed must be from 1000 to 9999"),
        (("--rates", "1e-4", "--updates", "0"), "stage_two.updates"),
        (("--rates", "1e-4", "--seconds", "0"), "stage_one.seconds"),
        (("--rates", "1e-4", "--jobs", "0"), "--jobs and --workers must be at least 1"),
        (("--rates", ",".join(f"{i}e-3" for i in range(1, 34))), "33 candidates are too many"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_line(
    waggle: Command, tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    tiny = ROOT / "recipes" / "tiny.toml"
    assert line in refused(waggle("tune", tiny, *words, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()
