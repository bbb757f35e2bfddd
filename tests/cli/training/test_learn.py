"""What `waggle learn` says while it works."""

from __future__ import annotations

from typing import Any

import pytest

from waggle.api.progress import Progress
from waggle.cli.training import learn
from waggle.learn.config import Settings


def test_the_first_line_says_what_comes_before_the_first_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(Progress, "__call__", lambda *_, **given: said.append(given["now"]))
    watch = learn._watching(Settings(tasks=("beacon",), minutes=1), Progress(quiet=True))
    watch(0, {})
    watch(1, {"minutes": 0.5, "reward": 0.25})
    assert "the start is played first" in said[0] and said[1] == "reward 0.25"
