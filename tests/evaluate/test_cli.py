"""`waggle eval` in parts, on two machines, and `waggle report` of what came together."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from waggle.cli.main import main

RECIPE = """
title = "Small"
[methods.one]
law = "heuristic"
[methods.two]
law = "private-only"
[methods.gone]
law = "adapted"
options = { adapter = "no/such/folder", wrong = 1 }
[[blocks]]
methods = ["one", "two", "gone"]
tasks = ["beacon"]
n = [4]
seeds = { start = 10000, count = 3 }
rounds = [3]
"""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_parts_add_up_and_merge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, here, there = tmp_path / "small.toml", str(tmp_path / "here"), str(tmp_path / "there")
    recipe.write_text(RECIPE)
    base = ("eval", str(recipe), "--executor", "inline")
    done = run(capsys, *base, "--out", here, "--methods", "one", "--seeds", "2")
    assert (done["played"], done["known"]) == (2, 0)
    done = run(capsys, *base, "--out", here, "--methods", "one")
    assert (done["played"], done["known"]) == (1, 2)
    run(capsys, *base, "--out", there, "--methods", "one,two")
    merged = run(capsys, "eval", str(recipe), "--out", here, "--merge", there)
    assert merged["merged"] == {there: {"taken": 3, "known": 3, "foreign": 0, "older": 0}}
    done = run(capsys, *base, "--out", here, "--methods", "one", "--again")
    assert (done["played"], done["known"]) == (3, 0)
    assert main(["report", here]) == 0
    text = capsys.readouterr().out
    assert "one (law heuristic)" in text and "not played yet: gone" in text
    assert "### What was played" in text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["report", here]) == 0
    screen = capsys.readouterr().out
    assert "not played yet: gone" in screen and "###" not in screen and "report.md" in screen


def test_a_law_of_ones_own_plays_a_recipe_and_stands_beside_stored_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, here, there = tmp_path / "small.toml", str(tmp_path / "here"), str(tmp_path / "there")
    recipe.write_text(RECIPE)
    base = ("eval", str(recipe), "--executor", "inline")
    run(capsys, *base, "--out", there, "--methods", "one,two")
    mine = ("--law", "relay")
    done = run(capsys, *base, "--out", here, *mine)
    assert (done["played"], done["known"], done["cells"]) == (3, 0, 3)
    merged = run(capsys, *base, "--out", here, *mine, "--merge", there)
    assert merged["merged"] == {there: {"taken": 6, "known": 0, "foreign": 0, "older": 0}}
    assert main(["report", here]) == 0
    text = capsys.readouterr().out
    assert "relay" in text and "one (law heuristic)" in text
    done = run(capsys, *base, "--out", here, *mine, "--methods", "relay,one")
    assert (done["played"], done["known"]) == (0, 6)


ECHO = """
from waggle import law
from waggle.laws.controls import PrivateOnly


@law("echo")
class Echo(PrivateOnly):
    name = "echo"

    def __init__(self, model="", shout=False):
        pass
"""


def test_laws_of_ones_own_come_into_one_table(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    clean_registry: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("echo.py").write_text(ECHO)
    small = RECIPE.replace(', "gone"]', "]")
    Path("small.toml").write_text(small)
    Path("other.toml").write_text(small.replace('title = "Small"', 'title = "Other"'))
    base, mine = ("eval", "small.toml", "--executor", "inline"), ("--plugin", "echo.py", "--law")
    for model in ("alpha", "beta"):
        done = run(capsys, *base, *mine, "echo", "--law.model", model)
        assert (done["played"], done["known"]) == (3, 0)
    run(capsys, *base, *mine, "relay")
    done = run(capsys, *base, "--seeds", "1")  # plays the recipe's own methods alone
    assert (done["played"], done["cells"]) == (2, 2)
    assert main(["report", "runs/small"]) == 0
    text = capsys.readouterr().out
    assert "other plans" not in text
    table = text.partition("### Scores")[2].partition("###")[0]
    named = [line.split("|")[1].strip(" †") for line in table.splitlines() if line[:2] == "| "]
    assert named[2:] == ["one", "two", "alpha", "beta", "relay"]
    assert run(capsys, *base, "--methods", "alpha,relay")["known"] == 6
    monkeypatch.chdir("runs")
    elsewhere = ("eval", "../small.toml", "--out", "small", "--methods", "beta")
    assert run(capsys, *elsewhere)["known"] == 3
    monkeypatch.chdir("..")
    assert main([*base, *mine, "echo", "--law.model", "beta", "--law.shout", "on"]) == 0
    assert "beta has other options now" in capsys.readouterr().err
    run(capsys, "eval", "other.toml", "--out", "runs/small", "--executor", "inline", "--seeds", "1")
    assert "alpha" not in Path("runs/small/recipe.json").read_text()  # of another recipe


def test_a_bundled_recipe_is_given_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    part = ("--methods", "private-only", "--tasks", "swarmbench/pursuit", "--seeds", "1")
    call = ("--executor", "inline", "-n", "16", *part)
    assert run(capsys, "eval", "tables/reduced", *call)["folder"] == "runs/reduced"
    assert '"source": "tables/reduced"' in Path("runs/reduced/recipe.json").read_text()
    Path("tables").mkdir()
    Path("tables/reduced").write_text("title = 1")
    assert main(["eval", "tables/reduced"]) == 2  # a file of one's own comes first
    assert "tables/reduced: title: " in capsys.readouterr().err
    assert main(["eval", "tables/reducde"]) == 2
    assert "or one of `waggle recipes list`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--law", "one"), "law 'one' is unknown"),
        (("--law.model", "m"), "--law.* belongs to a law; name one with --law"),
        (("--law", "heuristic", "--law.depth", "3"), "has no option --law.depth"),
    ],
)
def test_a_wrong_law_of_ones_own_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE)
    assert main(["eval", str(recipe), "--out", str(tmp_path / "run"), *words]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_law_that_the_recipe_has_is_a_method_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE.replace("one", "heuristic"))
    assert main(["eval", str(recipe), "--out", str(tmp_path / "run"), "--law", "heuristic"]) == 2
    assert "play it with --methods heuristic" in capsys.readouterr().err


def test_a_dry_run_counts_and_plays_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, out = tmp_path / "small.toml", tmp_path / "run"
    recipe.write_text(RECIPE)
    base = ("eval", str(recipe), "--out", str(out), "--methods", "one,two")
    found = run(capsys, *base, "--dry-run", "--seeds", "2")
    assert found["all"] == {
        "method": "all", "cells": 4, "decisions": 48, "finished": 0, "left": 48
    }  # fmt: skip
    assert not out.exists()
    run(capsys, *base[:-1], "one", "--executor", "inline")
    assert main([*base, "--dry-run"]) == 0
    assert "decisions left" in (text := capsys.readouterr().out) and "36" in text


def test_a_dry_run_names_laws_that_nobody_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE.replace('"private-only"', '"private-onyl"'))
    base = ("eval", str(recipe), "--out", str(tmp_path / "run"))
    assert main([*base, "--dry-run"]) == 0
    error = capsys.readouterr().err
    assert "method 'two': law 'private-onyl' is unknown" in error and error.count("\n") == 1
    assert main([*base, "--methods", "two"]) == 2
    assert "did you mean 'private-only'? Or leave it out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--methods", "gone"), "leave it out with --methods"),
        (("--methods", "on"), "did you mean 'one'"),
        (("--n", "4,x"), "population sizes"),
        (("--processes", "0"), "--processes"),
    ],
)
def test_slips_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE)
    assert main(["eval", str(recipe), "--out", str(tmp_path / "run"), *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_freezing_needs_an_anchor_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE)
    out, target = str(tmp_path / "run"), tmp_path / "anchors.json"
    run(capsys, "eval", str(recipe), "--executor", "inline", "--out", out, "--methods", "one")
    assert main(["report", out, "--freeze", str(target)]) == 2
    assert "anchors need the expert" in capsys.readouterr().err and not target.exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [('tables = ["scorez"]', "did you mean 'scores'"), ('figures = ["scale"]', "'scaling'")],
)
def test_a_table_that_is_not_there_is_told_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    recipe, out = tmp_path / "small.toml", tmp_path / "run"
    recipe.write_text(f"{line}\n{RECIPE}")
    assert main(["eval", str(recipe), "--out", str(out), "--methods", "one"]) == 2
    assert message in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_why_cells_failed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE + "options = { beacon = { scouts = 7.0 } }\n")
    words = ("eval", str(recipe), "--out", str(tmp_path / "run"), "--methods", "one")
    assert main([*words, "--executor", "inline", *more]) == 1
    said = capsys.readouterr().err
    assert "failed: one beacon N=4 seed 10000: " in said and "scouts" in said
