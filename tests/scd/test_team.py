"""Pieces of training side by side: who finds too little memory waits for the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scd import doomed
from waggle.scd.config import Recipe
from waggle.scd.run import factorial
from waggle.scd.run.workers import run_all


@pytest.mark.usefixtures("workers")
def test_who_finds_too_little_memory_is_tried_again_when_others_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.scd.run.workers._open", doomed.unprepared)
    arms = factorial.cells(Recipe(), tmp_path, tmp_path, [0], views=1, native=0)[:3]
    found = list(run_all([doomed.Crowded(*arm) for arm in arms], 3))
    assert found[0]["arm"] == "decision" and len(found) == 3
    starved = int((tmp_path / "starved").read_text())
    assert starved not in {row["process"] for row in found}, "it may keep what it had"
