"""`waggle check rows`: rows that the code no longer gives are found, in runs and archives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

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


@pytest.fixture
def run(waggle: Command, tmp_path: Path) -> Path:
    (tmp_path / "laws.toml").write_text(RECIPE, encoding="utf-8")
    out = tmp_path / "run"
    said = waggle("eval", tmp_path / "laws.toml", "--out", out, "--methods", RULES,
                  "--executor", "inline")  # fmt: skip
    assert said.code == 0, said.err
    return out


def spoil(run: Path, method: str) -> None:
    """Make every row of a method that of another episode."""
    lines = [json.loads(line) for line in (run / "rows.jsonl").read_text().splitlines()]
    for row in lines:
        if row["method"] == method:
            row["scores"]["score"] += 0.5
    (run / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))


def test_rows_of_todays_code_hold(waggle: Command, run: Path, tmp_path: Path) -> None:
    assert waggle("archive", run, tmp_path / "small").code == 0
    for folder in (run, tmp_path / "small"):
        said = waggle("check", "rows", folder, "--workers", 1)
        assert said.code == 0, said.out + said.err
        assert "12 of 12 episodes" in said.out


def test_what_came_out_differently_is_named(waggle: Command, run: Path) -> None:
    spoil(run, "heuristic")
    said = waggle("check", "rows", run, "--cells", 4, "--workers", 1)
    assert said.code == 1
    assert "2 of 4 episodes" in said.out, "methods and populations take turns"
    assert said.out.count("differs: heuristic beacon/beacon N=") == 2
    assert ", now " in said.out
    told = waggle("check", "rows", run, "--methods", "heuristic", "--workers", 1, "--json").data
    assert not told["ok"] and told["played"] == len(told["differing"]) == 6
    assert waggle("check", "rows", run, "--methods", "private-only", "--workers", 1).code == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--cells", 0), "--cells must be at least 1"),
        (("--methods", "tiny"), "has no row of a law without weights"),
        (("--methods", "heuristics"), "did you mean 'heuristic'"),
    ],
)
def test_a_check_of_nothing_is_refused(
    waggle: Command, run: Path, words: tuple[object, ...], reason: str
) -> None:
    said = waggle("check", "rows", run, *words)
    assert said.code == 2 and reason in said.err


def test_a_folder_without_rows_is_refused(waggle: Command, tmp_path: Path) -> None:
    said = waggle("check", "rows", tmp_path)
    assert said.code == 2 and "holds no recipe.json" in said.err
