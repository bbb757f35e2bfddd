"""The time of the peers is that of every fit and of every table that has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import peers


def test_all_fits_and_tables_are_steps() -> None:
    found = list(peers.steps())
    assert {s.method for s in found if s.kind == "fit"} == {
        "arg-designer", "dmoa", "g-designer", "gptswarm",
    }  # fmt: skip
    assert {s.kind for s in found if s.method == "swarmsys"} == {
        "agentsnet", "extension", "horizon", "primary", "second_seeds",
    }  # fmt: skip
    assert {s.kind for s in found if s.method == "dmoa"} >= {"fit", "primary", "anchors"}


def test_a_step_is_measured_once_scaled_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = peers.Step("anchors", "agentnet")
    played: list[peers.Step] = []

    def play(self: peers.Step, out: Path, seeds: int | None) -> list[str]:
        played.append(self)
        recipe = str(peers.ROOT / "recipes/tables/anchors.toml")
        return [
            *peers.WAGGLE, "eval", recipe, "--methods", "agentnet", "--tasks", "silo/I-04", "-n",
            "4", "--seeds", "1", "--executor", "inline", "--out", str(self.home(out)),
        ]  # fmt: skip

    monkeypatch.setattr(peers, "steps", lambda: [step])
    monkeypatch.setattr(peers.Step, "command", play)
    monkeypatch.setattr("sys.argv", ["peers", "--out", str(tmp_path)])
    for _ in range(2):
        peers.main()
        shown = capsys.readouterr().out
        assert "the same" in shown and "on two cores" in shown
    assert played == [step]
    assert peers.measured(tmp_path / "steps-all.jsonl")[step]["scale"] > 100
