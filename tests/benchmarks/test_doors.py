"""`waggle bench` opens the checkout's benchmarks, and says where they are if it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from waggle.cli import checkout
from waggle.cli.main import main


def test_the_host_alone_is_measured_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", "engine", "--host-only", "--model", "tiny-random", "--batch", "4"]
    assert main([*asked, "--tail-tokens", "200", "--repeats", "1", "--json"]) == 0
    rows = {row["mode"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert all(row["microseconds"] > 0 for row in rows.values())
    assert rows["free, no drafts"]["steps"] > rows["constrained"]["steps"]


def test_episodes_are_timed_as_users_play_them(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", "play", "--law", "heuristic", "--tasks", "beacon", "-n", "4", "--seeds", "2"]
    assert main([*asked, "--json"]) == 0
    _, swarms, plan = json.loads(capsys.readouterr().out)["rows"]
    assert swarms["episodes"] == plan["episodes"] == 2
    assert min(swarms["decisions_per_s"], plan["decisions"]) > 0
    assert main([*asked[:-1], "0"]) == 2


def test_without_a_checkout_the_fix_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkout, "CHECKOUT", tmp_path)
    for command in (["bench", "engine"], ["check", "graphs", str(tmp_path)]):
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "checkout of the repository" in line
