"""`waggle list` and `waggle doctor`: what is there, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from waggle import plugins, shipped
from waggle.built_in import BUILT_IN
from waggle.extras import EXTRAS

KINDS = ("substrates", "tasks", "laws", "metrics")


def test_list_shows_all_kinds(waggle: Command) -> None:
    said = waggle("list")
    assert said.code == 0
    for word in ("Substrates", "Tasks", "Laws", "Metrics", "beacon", "heuristic", "random-legal"):
        assert word in said.out
    assert "cannot be imported" not in said.out


@pytest.mark.parametrize("kind", KINDS)
def test_list_has_machine_output(waggle: Command, kind: str) -> None:
    data = waggle("list", kind, "--json").data
    assert list(data) == [kind]
    assert kind == "metrics" or data[kind]


def test_every_option_of_every_law_is_explained(waggle: Command) -> None:
    rows = waggle("list", "--verbose", "--json").data["laws"]
    # Other tests in this process may have decorated laws of their own.
    laws = {row["name"]: row["options"] for row in rows if row["name"] in BUILT_IN["law"]}
    assert {"chat", "nano", "local", "adapted", "zero-shot"} <= {n for n in laws if laws[n]}
    for name, options in laws.items():
        assert len(options) == len(plugins.law_options(name))
        assert [each for each in options if len(each["meaning"]) < 10] == [], name
    said = waggle("list", "laws", "--verbose").out
    assert "--law.timeout: time limit per question" in said and "[default: 120.0]" in said
    assert "--law." in waggle("list", "laws").out


def test_help_shows_the_options_of_the_law_it_is_asked_for(waggle: Command) -> None:
    for law, shown, hidden in (
        ("chat", "--law.base-url", "--law.dtype"), ("nano", "--law.dtype", "--law.base-url"),
    ):  # fmt: skip
        said = waggle("run", "beacon", "--law", law, "--help")
        assert said.code == 0 and shown in said.out and hidden not in said.out
        assert f"Options of the law {law}" in said.out
    assert "Options of the law" not in waggle("run", "beacon", "--law", "relay", "--help").out
    assert "Options of the law" not in waggle("run", "--help", "--law", "nobody").out


def test_every_listed_task_can_be_named(waggle: Command, tmp_path: Path) -> None:
    for row in waggle("list", "tasks", "--json").data["tasks"]:
        for name in row["tasks"]:
            assert plugins.find_task(name).name == name


def test_the_tasks_say_what_they_are_and_take(waggle: Command) -> None:
    rows = waggle("list", "tasks", "--verbose", "--json").data["tasks"]
    details = {each["name"]: each for row in rows for each in row["details"]}
    assert set(details) == {name for row in rows for name in row["tasks"]}
    assert details["beacon"]["takes"] == ["--rounds", "--shock"]
    assert details["silo/I-05"]["takes"] == ["--rounds", "--shock", "--worker"]
    assert details["silo/I-01"] == {
        "name": "silo/I-01", "goal": "Report the largest number held anywhere.", "rounds": 10,
        "takes": ["--rounds", "--worker"],
    }  # fmt: skip
    text = waggle("list", "tasks", "--verbose").out
    assert "beacon: Commit to the colour that the beacon shows now" in text
    assert "  32 rounds; takes --rounds, --shock\n" in text
    assert "every task of beacon takes --beacon.scouts, --beacon.graph" in text


@pytest.mark.parametrize("program", [None, "/usr/bin/chromium"])
def test_doctor_says_whether_a_gif_can_be_made(
    waggle: Command, monkeypatch: pytest.MonkeyPatch, program: str | None
) -> None:
    monkeypatch.setattr("waggle.view.chromium.PROGRAM", program)
    (found,) = (f for f in waggle("doctor", "--json").data["findings"] if f["topic"] == "browser")
    assert found["ok"] == (program is not None) and "`waggle gif`" in found["text"]
    assert program or "install Chromium or Chrome" in found["text"]


def test_doctor_finds_this_installation_sound(waggle: Command) -> None:
    said = waggle("doctor", "--json")
    assert said.code == 0
    assert {"python", "numpy", "torch", "disk"} <= {f["topic"] for f in said.data["findings"]}
    assert waggle("doctor").out.splitlines()[-1].strip() == "ready"


def test_doctor_names_a_missing_part(waggle: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waggle.cli.setup.doctor._CORE", ("numpy", "no-such-package"))
    said = waggle("doctor")
    assert said.code == 1
    assert "MISSING" in said.out and "no-such-package" in said.out


def test_doctor_says_what_cannot_run_and_what_can(
    waggle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "law", ("torch", "no-such-package"))
    said = waggle("doctor", "--json")
    assert said.code == 0
    found = {finding["topic"]: finding for finding in said.data["findings"]}
    assert not found["extra law"]["ok"] and found["extra serve"]["ok"]
    assert found["extra law"]["text"].startswith("cannot run: the law nano")
    assert "rules such as `--law expert` play without" in found["extra law"]["text"]


def test_a_law_s_name_never_gives_random_weights(
    waggle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.models.fetch.path", lambda name: f"random {name}")
    assert Path(waggle("models", "path", "nano").out.strip()) == shipped.folder("nano")
    assert waggle("models", "path", "nano", "--untrained").out == "random nano\n"
