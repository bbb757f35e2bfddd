"""Fixtures of several tests: a law that is trained again, and processes that start at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.evaluate.plans import WEIGHTS
from waggle.evaluate import batched
from waggle.evaluate.episodes import law_of

Train = Callable[[str], None]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Train]:
    """Train the law `test-trained`: its next call finds other weights."""
    monkeypatch.chdir(tmp_path)

    def again(digest: str) -> None:
        WEIGHTS.write_text(digest)
        law_of.cache_clear()

    again("aaaa")
    yield again
    law_of.cache_clear()


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of batched laws, so that they know the laws of the tests."""
    monkeypatch.setattr(batched, "START", "fork")
    monkeypatch.setattr(batched, "POLL_SECONDS", 0.05)
