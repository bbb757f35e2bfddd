"""`waggle check rows`: rows that the code no longer gives are found, in runs and archives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, refused
from waggle.cli.main import main
from waggle.evaluate import executors, plan

RECIPE = """
title = "Laws"
[methods.heuristic]
law = "heuristic"
[methods.private-only]
law = "private-only"
[methods.tiny]
law = "zero-shot"
options = { model = "tiny-random" }
order = "canonical"
[[blocks]]
methods = ["heuristic", "private-only", "tiny"]
tasks = ["beacon/beacon"]
n = [4, 8]
seeds = { start = 10000, count = 3 }
"""
RULES = "heuristic,private-only"


@pytest.fixture(autouse=True)
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play in this process, which spares a worker its imports, but for one test."""
    made = executors.make

    def inline(kind: str, workers: int | None) -> executors.Executor:
        return made("inline" if workers == 1 else kind, workers)

    if "hold" not in request.node.name:
        monkeypatch.setattr(executors, "make", inline)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    (folder / "laws.toml").write_text(RECIPE, encoding="utf-8")
    words = ["eval", str(folder / "laws.toml"), "--out", str(folder / "run"), "--methods", RULES]
    assert main([*words, "--executor", "inline"]) == 0
    return folder


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A run of its own, beside its recipe."""
    return shutil.copytree(played, tmp_path, dirs_exist_ok=True) / "run"


def change(run: Path, method: str, how: Callable[[dict[str, Any]], object]) -> None:
    """Change every row of a method."""
    lines = [json.loads(line) for line in (run / "rows.jsonl").read_text().splitlines()]
    for row in lines:
        if row["method"] == method:
            how(row)
    (run / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))


def test_rows_of_todays_code_hold(waggle: Command, run: Path, tmp_path: Path) -> None:
    assert waggle("archive", run, tmp_path / "small").code == 0
    for folder in (run, tmp_path / "small"):
        said = waggle("check", "rows", folder, "--workers", 1)
        assert said.code == 0, said.out + said.err
        assert "12 of 12 episodes" in said.out


def test_what_came_out_differently_is_named(waggle: Command, run: Path) -> None:
    change(run, "heuristic", lambda row: row["scores"].update(score=row["scores"]["score"] + 0.5))
    said = waggle("check", "rows", run, "--cells", 4, "--workers", 1)
    assert said.code == 1
    assert "2 of 4 episodes" in said.out, "methods and populations take turns"
    assert said.out.count("differs: heuristic beacon/beacon N=") == 2
    assert ", now " in said.out
    told = waggle("check", "rows", run, "--methods", "heuristic", "--workers", 1, "--json").data
    assert not told["ok"] and told["played"] == len(told["differing"]) == 6
    assert waggle("check", "rows", run, "--methods", "private-only", "--workers", 1).code == 0


@pytest.mark.parametrize(
    ("counters", "told"),
    [({"expired": 0, "writes.odd": 3}, "writes.odd 3, now 0"), ({"updates": 1}, "updates 1, now")],
)
def test_what_no_longer_happens_differs(
    waggle: Command, run: Path, counters: dict[str, int], told: str
) -> None:
    change(run, "heuristic", lambda row: row["counters"].update(counters))
    said = waggle("check", "rows", run, "--methods", "heuristic", "--workers", 1, "--json")
    assert said.code == 1
    assert all(any(told in text for text in found["differs"]) for found in said.data["differing"])
    assert len(said.data["differing"]) == 6


@pytest.mark.parametrize(
    "asked",
    [{"weights": "0a"}, {"counters": {"calls": 1}}, {"counters": {"tokens.input": 9}}],
)
def test_a_model_is_never_asked_again(waggle: Command, run: Path, asked: dict[str, Any]) -> None:
    change(run, "heuristic", lambda row: row.update(asked))
    said = waggle("check", "rows", run, "--methods", "heuristic", "--workers", 1)
    assert "has no row of a law without weights" in refused(said)
    assert "6 of 6 episodes" in waggle("check", "rows", run, "--workers", 1).out


def test_a_failed_row_is_not_asked(waggle: Command, run: Path) -> None:
    change(run, "heuristic", lambda row: row.update(error="no memory", scores={}, metrics={}))
    assert "6 of 6 episodes" in waggle("check", "rows", run, "--workers", 1).out


def test_a_law_that_is_gone_fails_its_own_rows_alone(waggle: Command, run: Path) -> None:
    recipe = json.loads((run / "recipe.json").read_text(encoding="utf-8"))
    recipe["methods"]["heuristic"]["options"] = {"gone": 1}
    (run / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    cells = [c for c in plan.cells(plan.load(run / "recipe.json")) if c.method == "heuristic"]
    named = {(cell.case.n, cell.case.seed): cell.id for cell in cells}
    change(run, "heuristic", lambda row: row.update(cell=named[row["n"], row["seed"]]))
    said = waggle("check", "rows", run, "--workers", 1)
    assert said.code == 1 and "6 of 12 episodes" in said.out
    assert said.out.count("failed now: ") == 6


def test_rows_of_another_recipe_are_refused(waggle: Command, run: Path) -> None:
    recipe = json.loads((run / "recipe.json").read_text(encoding="utf-8"))
    recipe["blocks"][0]["seeds"] = [10900]
    (run / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    assert "has no row of its own recipe" in refused(waggle("check", "rows", run))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--cells", 0), "--cells must be at least 1"),
        (("--workers", 0), "--workers must be at least 1"),
        (("--methods", "tiny"), "has no row of a law without weights"),
        (("--methods", "heuristics"), "did you mean 'heuristic'"),
    ],
)
def test_a_check_of_nothing_is_refused(
    waggle: Command, run: Path, words: tuple[object, ...], reason: str
) -> None:
    said = waggle("check", "rows", run, *words)
    assert reason in refused(said)


def test_a_folder_without_rows_is_refused(waggle: Command, tmp_path: Path) -> None:
    said = waggle("check", "rows", tmp_path)
    assert "holds no recipe.json" in refused(said)
