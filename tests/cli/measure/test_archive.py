"""`waggle archive` as a user calls it: tables come from what is left of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from waggle import plugins
from waggle.cli.main import main
from waggle.substrates.beacon import Beacon

RECIPE = """
title = "Two laws"
tables = ["scores"]
[methods.heuristic]
law = "heuristic"
[methods.private-only]
law = "private-only"
[[blocks]]
methods = ["heuristic", "private-only"]
tasks = ["beacon/beacon"]
n = [8]
seeds = { start = 10000, count = 2 }
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two laws."""
    (tmp_path / "two.toml").write_text(RECIPE, encoding="utf-8")
    out = tmp_path / "run"
    assert (
        main(["eval", str(tmp_path / "two.toml"), "--out", str(out), "--executor", "inline"]) == 0
    )
    return out


def test_the_report_of_an_archive_is_that_of_the_run(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small"
    assert main(["archive", str(run), str(small)]) == 0
    assert "private-only" in capsys.readouterr().out
    for folder in (run, small):
        assert main(["report", str(folder)]) == 0
    text = [(folder / "report.md").read_text(encoding="utf-8") for folder in (run, small)]
    assert text[0] == text[1]


def test_an_archive_is_not_played_into(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small"
    assert main(["archive", str(run), str(small), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == {"heuristic": 2, "private-only": 2} and found["left"] == 0
    assert main(["eval", str(tmp_path / "two.toml"), "--out", str(small)]) == 2
    assert f"with --merge {small}" in capsys.readouterr().err


def test_a_folder_without_a_recipe_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["archive", str(tmp_path), str(tmp_path / "small")]) == 2
    assert "holds no recipe.json" in capsys.readouterr().err


def test_a_world_of_a_plug_in_needs_it_for_playing_alone(tmp_path: Path) -> None:
    class Puddle(Beacon):
        name, tasks = "puddle", ("puddle",)

    recipe, run, packed = tmp_path / "r.toml", str(tmp_path / "run"), str(tmp_path / "packed")
    recipe.write_text(RECIPE.replace("beacon/beacon", "puddle"), encoding="utf-8")
    with plugins.lent({"substrate": {"puddle": Puddle}}):
        assert main(["eval", str(recipe), "--out", run, "--executor", "inline", "--keep"]) == 0
    texts = []
    for call in (["report", run], ["report", run, "--records"]):
        assert main(call) == 0
        texts.append((tmp_path / "run/report.md").read_text(encoding="utf-8"))
    assert texts[0] == texts[1] and "episodes: 4, failed: 0" in texts[0]
    assert main(["archive", run, packed]) == 0
    assert main(["report", packed]) == 0
