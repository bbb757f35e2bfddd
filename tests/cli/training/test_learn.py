"""What `waggle learn` says while it works."""

from __future__ import annotations

from typing import Any

import pytest

from waggle.api.progress import Progress
from waggle.cli.training import learn
from waggle.learn.config import Settings


def test_the_first_line_says_how_the_start_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(Progress, "__call__", lambda *_, **given: said.append(given["now"]))
    watch = learn._watching(Settings(tasks=("beacon",), minutes=1), Progress(quiet=True))
    watch(0, {"trial.score": 0.25, "trial.gain": 0.0})
    assert "the start scores 0.250" in capsys.readouterr().err and not said
    watch(1, {"minutes": 0.5, "reward": 0.25})
    assert said == ["reward 0.25"]
