"""`--plugin FILE`: every command knows what the file defines, and its faults are one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command, refused
from waggle.evaluate.episodes import law_of
from waggle.evaluate.rows import read_rows
from waggle.runtime import watchdog

pytestmark = pytest.mark.usefixtures("clean_registry")

PLUGIN = """
import sys
import time
from waggle import law, metric, substrate
from waggle.laws.heuristic import Heuristic
from waggle.substrates.beacon import Beacon


@law("moody")
class Moody(Heuristic):
    name = "moody"

    def __init__(self, mood: str = "fair") -> None:
        super().__init__()
        self.mood = mood

    def decide(self, requests):
        if self.mood == "foul":
            raise ValueError("not\\ntoday")
        if self.mood == "gone":
            sys.exit(4)
        while self.mood == "slow":
            time.sleep(1)
        return super().decide(requests)


@metric("peak")
def peak(episode):
    return max(entry.score["score"] for entry in episode.rounds)


@metric("broken")
def broken(episode):
    return episode.nothing


@substrate("lamp")
class Lamp(Beacon):
    name, tasks = "lamp", ("lamp",)
"""
RECIPE = """
title = "Own parts"
[methods.mine]
law = "moody"
[[blocks]]
methods = ["mine"]
tasks = ["beacon"]
n = [4]
seeds = { start = 10000, count = 2 }
rounds = [3]
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "own_parts.py"
    path.write_text(PLUGIN, encoding="utf-8")
    return path


def test_a_law_and_a_world_of_a_file_are_played(
    waggle: Command, plugin: Path, tmp_path: Path
) -> None:
    words = ("run", "lamp", "-n", 4, "--rounds", 3, "--law", "moody", "--lamp.scouts", 0.5)
    said = waggle(*words, f"--plugin={plugin}", "--out", tmp_path, "--json")
    assert said.code == 1 and said.data["law"] == "moody", said.err
    assert said.data["metrics"]["peak"] >= said.data["scores"]["score"]
    assert said.data["metrics"]["broken"] is None and "metric 'broken' failed" in said.err
    assert waggle("replay", said.data["record"], "--plugin", plugin).code == 0
    said = waggle("list", "laws", "--plugin", plugin, "--json")
    (mine,) = (row for row in said.data["laws"] if row["name"] == "moody")
    assert mine["from"] == "own_parts.py" and mine["options"] == ["--law.mood"]


@pytest.mark.parametrize(
    ("mood", "seconds", "told"),
    [
        ("foul", 60, "ValueError: not today"),
        ("gone", 60, "it called sys.exit(4)"),
        ("slow", 0.1, "law 'moody' took over 0.1 s for 16 requests"),
    ],
)
def test_a_law_that_fails_is_one_line_with_its_place(
    waggle: Command, plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mood: str,
    seconds: float, told: str,
) -> None:  # fmt: skip
    monkeypatch.setenv(watchdog.SECONDS, "")
    words = ("run", "beacon", "--law", "moody", "--law.mood", mood, "--out", tmp_path / "runs")
    line = refused(waggle(*words, "--plugin", plugin, "--watchdog", seconds))
    assert told in line and "(own_parts.py:" in line
    assert not list(tmp_path.glob("runs/*"))


def test_a_law_is_named_by_its_file(waggle: Command, tmp_path: Path) -> None:
    path = tmp_path / "shy.py"
    path.write_text(
        "from waggle import Decode, law\n\n\n@law('shy')\nclass Shy:\n    name = 'shy'\n\n"
        "    def __init__(self, words: int, loud: bool = False) -> None:\n"
        "        self.text = 'no ' * words\n\n"
        "    def decide(self, requests):\n"
        "        return [Decode(self.text) for _ in requests]\n",
        encoding="utf-8",
    )
    words = ("run", "beacon", "-n", 4, "--rounds", 2, "--out", tmp_path / "runs", "--law", path)
    said = waggle(*words, "--law.words", 3, "--json")
    assert said.code == 0 and said.data["law"] == "shy"
    assert said.err.startswith("8 of 8 decisions were not executable (mostly text.none: ")
    assert said.err.endswith(f"see `waggle show {said.data['record']} --round 0 --agent 0`\n")
    assert "_shy_" in said.data["record"]
    text = waggle(*words, "--help").out
    assert re.search(r"\* +--law.words INT .*\[required\]", text), text
    assert "--law.loud CHOICE  [choices: on, off] [default: off]" in text
    assert "there is no such file" in refused(waggle("run", "beacon", "--law", "nowhere.py"))


@pytest.mark.parametrize(
    ("slip", "told"),
    [
        ("del self.rounds", "world of 'dim' has no `rounds`; set it in `__init__`"),
        ("del self.keys", "world of 'dim' has no `keys`; set it in `__init__`"),
        ("self.contract = None", "world of 'dim' has nothing as `contract`; give a Contract"),
        ("self.step = lambda acts: None", "`step` of the world of 'dim' returned nothing"),
    ],
)
def test_a_slip_in_a_world_is_one_line(
    waggle: Command, tmp_path: Path, slip: str, told: str
) -> None:
    path = tmp_path / "dim.py"
    path.write_text(
        "from waggle import substrate\nfrom waggle.substrates.beacon import *\n\n\n"
        "class Slip(BeaconWorld):\n    def __init__(self, *given):\n"
        f"        super().__init__(*given)\n        {slip}\n\n\n"
        "@substrate('dim')\nclass Dim(Beacon):\n    name, tasks = 'dim', ('dim',)\n\n"
        "    def open(self, case, keys=None):\n"
        "        return Slip(case, BeaconOptions(), range(case.n))\n",
        encoding="utf-8",
    )
    for engine in ("sync", "event"):
        words = ("run", "dim", "-n", 4, "--engine", engine, "--out", tmp_path / "runs")
        assert told in refused(waggle(*words, "--plugin", path))
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize(
    ("decorator", "told"),
    [
        ("@law", '@law needs a name; write @law("NAME")'),
        ("@metric", '@metric needs a name; write @metric("NAME")'),
        ("@substrate", '@substrate needs a name; write @substrate("NAME")'),
        ("@metric('up', better='up')", "better is 'higher' or 'lower', not 'up'"),
    ],
)
def test_a_decorator_that_registers_nothing_is_one_line(
    waggle: Command, tmp_path: Path, decorator: str, told: str
) -> None:
    path = tmp_path / "slip.py"
    path.write_text(
        f"from waggle import law, metric, substrate\n\n\n{decorator}\ndef it():\n    pass\n",
        encoding="utf-8",
    )
    line = refused(waggle("list", "laws", "--plugin", path))
    assert told in line and "(slip.py:" in line


def test_a_world_registered_under_another_name_is_refused(waggle: Command, tmp_path: Path) -> None:
    path = tmp_path / "two_names.py"
    path.write_text(PLUGIN.replace('name, tasks = "lamp"', 'name, tasks = "torch"'), "utf-8")
    line = refused(waggle("run", "lamp", "--plugin", path, "--out", tmp_path))
    assert "substrate 'lamp' has the name 'torch'; give both one name" in line


def test_a_world_of_a_file_that_was_not_given_asks_for_it(waggle: Command, tmp_path: Path) -> None:
    assert "add --plugin FILE.py" in refused(waggle("run", "quagmire", "--out", tmp_path))
    assert "add --plugin FILE.py" in refused(waggle("run", "quagmire/deep", "--out", tmp_path))


def test_a_law_named_by_its_file_is_the_method_of_its_name(
    waggle: Command, plugin: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "own.toml"
    recipe.write_text(RECIPE.replace("moody", "heuristic"), encoding="utf-8")
    words = ("eval", recipe, "--executor", "inline", "--out", tmp_path / "run")
    assert waggle(*words, "--law", plugin).code == 1  # its metric `broken` fails
    assert {row.method for row in read_rows(tmp_path / "run")} == {"moody"}


def test_a_plugin_without_a_file_is_refused(waggle: Command) -> None:
    assert "--plugin needs a value" in refused(waggle("list", "--plugin"))
    assert "'nowhere.py' is no plug-in" in refused(waggle("list", "--plugin", "nowhere.py"))


def test_worker_processes_play_the_law_and_a_broken_metric_is_told(
    waggle: Command, plugin: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    words = ("eval", recipe, "--out", tmp_path / "run", "--workers", 1, "--plugin", plugin)
    said = waggle(*words, "--json")
    assert said.code == 1 and (said.data["played"], said.data["failed"]) == (2, 0), said.err
    assert "(own_parts.py:" in said.data["metrics_failed"]["broken"]
    assert "metric 'broken' failed: AttributeError" in said.err
    for row in read_rows(tmp_path / "run"):
        assert row.metrics["peak"] is not None and row.metrics["broken"] is None
    text = waggle("report", tmp_path / "run").out
    (line,) = (line for line in text.splitlines() if line.startswith("| peak |"))
    assert re.search(r"\| mine \| [\d.]+ \[[\d.]+,\s[\d.]+\] \| . \| 2 \|", line), line
    assert "| broken |" not in text
    law_of.cache_clear()
