"""`waggle new` and `waggle recipes`: what they write works as written and replaces nothing."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command, refused
from waggle.cli.setup.starters import STARTERS

pytestmark = pytest.mark.usefixtures("clean_registry")


def test_what_is_written_passes_its_own_test(waggle: Command, tmp_path: Path) -> None:
    for kind in STARTERS:
        assert waggle("new", kind, f"my-{kind}", "--to", tmp_path).code == 0
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert f"{len(STARTERS)} passed" in done.stdout


@pytest.mark.parametrize("kind", STARTERS)
def test_the_commands_of_its_page_work(
    waggle: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = waggle("new", kind, "own")
    assert "own.py, test_own.py, own.md" in said.out
    (shell,) = re.findall(r"```sh\n(.*?)```", Path("own.md").read_text(), flags=re.S)
    for line in shell.splitlines():
        said = waggle(*shlex.split(line)[1:])
        assert said.code == 0, said.err


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("law", "class", "no keyword of Python"),
        ("law", "Hermit!", "use small letters"),
        ("law", "heuristic", "is there already"),
        ("metric", "json", "is another module already"),
        ("law", "mine", "mine.md is there already"),
        ("plugin", "mine", "--help"),
    ],
)
def test_what_would_not_work_is_refused(
    waggle: Command, tmp_path: Path, kind: str, name: str, told: str
) -> None:
    (tmp_path / "mine.md").touch()
    assert told in refused(waggle("new", kind, name, "--to", tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.md"]


def test_recipes_are_listed_and_copied_with_what_they_need(waggle: Command, tmp_path: Path) -> None:
    listed = waggle("recipes", "list", "--json").data
    assert listed["tables/reduced"]["use"] == "waggle eval" and listed["tiny"]["about"]
    assert listed["tables/methods"]["use"] == "other recipes"
    assert listed["learn/median"]["use"] == "waggle learn"
    copied = waggle("recipes", "copy", "tables/reduced.toml", "--to", tmp_path, "--json").data
    assert copied["files"] == [str(tmp_path / f"tables/{n}.toml") for n in ("reduced", "methods")]
    assert waggle("eval", tmp_path / "tables/reduced.toml", "--dry-run").code == 0


def test_a_recipe_of_yours_is_not_replaced(waggle: Command, tmp_path: Path) -> None:
    assert "tiny" in waggle("recipes", "copy", "tiny", "--to", tmp_path).out
    assert waggle("recipes", "copy", "tiny", "--to", tmp_path).code == 0, "the same file again"
    (tmp_path / "tiny.toml").write_text("mine")
    assert "is there already" in refused(waggle("recipes", "copy", "tiny", "--to", tmp_path))
    assert (tmp_path / "tiny.toml").read_text() == "mine"
    assert "did you mean 'tiny'" in refused(waggle("recipes", "copy", "tinny"))
