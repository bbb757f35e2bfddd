"""`waggle demo`: a swarm agrees, changes its mind, and is compared with simpler laws."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.conftest import Command, refused
from waggle import shipped
from waggle.cli.play import demo
from waggle.runtime.records import read


def test_it_shows_commitments_forming_and_recovering(waggle: Command, tmp_path: Path) -> None:
    said = waggle("demo", "--law", "expert", "--out", tmp_path)
    assert said.code == 0, said.err
    rounds = [line for line in said.err.splitlines() if " right " in line]
    assert len(rounds) == 10 + 19
    assert rounds[0].count(" .") == 16 and " ." not in rounds[9]
    assert "100% right" in rounds[9] and "100% right" in rounds[-1]
    assert "late counterevidence: the data of agent" in said.err
    for law in ("expert", "heuristic", "private-only"):
        assert law in said.out
    for word in (
        "first question",
        "second, after one agent's data changed",
        f"waggle view {tmp_path}",
        "messages per agent",
        "decisions per second",
        "valid at first decode",
    ):
        assert word in said.out
    assert len(list(tmp_path.iterdir())) == 6


def test_the_laws_are_compared_on_the_same_cases(waggle: Command, tmp_path: Path) -> None:
    laws = waggle("demo", "--law", "expert", "--out", tmp_path, "--json").data["laws"]
    assert [law["law"] for law in laws] == ["expert", "heuristic", "private-only"]
    assert laws[0]["score"] > laws[2]["score"] == 0.0
    assert laws[0]["messages per agent"] > laws[2]["messages per agent"] == 0
    cases = [read(path).header.case for path in tmp_path.iterdir()]
    assert len(cases) == 6 and len({(c.task, c.seed, c.shock) for c in cases}) == 2


def test_without_weights_one_line_says_so(
    waggle: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "ROOT", tmp_path / "nothing")
    assert "nano" in refused(waggle("demo", "--out", tmp_path / "runs"))


def test_on_a_narrow_screen_a_round_is_one_line(
    waggle: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "err", lambda: Console(force_terminal=True, width=80, _environ={}))
    said = waggle("demo", "--law", "heuristic", "--out", tmp_path)
    assert " right" in said.err and "messages" not in said.err
    assert max(map(len, said.err.splitlines())) <= 80
