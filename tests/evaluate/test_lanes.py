"""Lockstep and lanes: the rows of playing alone, and no episode lost to another's bug."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.evaluate.test_runner import numbers, plan
from waggle.core.protocols import Case, Decode, Request
from waggle.evaluate import lanes
from waggle.evaluate.executors import Inline
from waggle.evaluate.rows import read_rows
from waggle.evaluate.runner import run_plan
from waggle.laws.heuristic import Heuristic
from waggle.plugins import law


@law("test-fragile")
class Fragile:
    """A batched law that breaks on one task action list, or ends its process."""

    name = "test-fragile"
    batched = True

    def __init__(self, deadly: bool = False) -> None:
        self._deadly = deadly

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        if self._deadly:
            os._exit(3)
        if len(requests) % 7 == 0:
            raise ZeroDivisionError("a bug that shows in some batches only")
        return Heuristic().decide(requests)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start lanes with the laws of this file."""
    monkeypatch.setattr(lanes, "START", "fork")
    monkeypatch.setattr(lanes, "POLL_SECONDS", 0.05)


@pytest.mark.usefixtures("forked")
def test_lanes_give_the_rows_of_playing_alone(tmp_path: Path) -> None:
    run_plan(plan(), tmp_path / "alone", Inline())
    done = run_plan(plan("test-batched"), tmp_path / "lanes", Inline(), processes=2, width=8)
    assert done == (4, 0, 0)
    assert numbers(read_rows(tmp_path / "alone")) == numbers(read_rows(tmp_path / "lanes"))


@pytest.mark.usefixtures("forked")
def test_cells_of_a_dead_lane_are_failures_and_are_played_next_time(tmp_path: Path) -> None:
    deadly = [
        msgspec.structs.replace(c, law_options={"deadly": True}) for c in plan("test-fragile")
    ]
    assert run_plan(deadly, tmp_path, Inline(), processes=2) == (0, 0, 4)
    assert all("process" in row.error for row in read_rows(tmp_path))


def test_a_bug_in_one_batch_loses_no_episode(tmp_path: Path) -> None:
    cells = plan("test-fragile", 7)
    assert run_plan(cells, tmp_path / "a", Inline(), width=42) == (7, 0, 0)
    run_plan(plan(seeds=7), tmp_path / "b", Inline())
    assert numbers(read_rows(tmp_path / "a")) == numbers(read_rows(tmp_path / "b"))


def test_a_case_that_cannot_be_opened_is_its_own_failure(tmp_path: Path) -> None:
    cells = plan("test-batched", 3)
    cells[1] = msgspec.structs.replace(cells[1], case=Case("beacon", "beacon", 0, 10_000))
    assert run_plan(cells, tmp_path, Inline()) == (2, 0, 1)
    assert any("-n" in row.error for row in read_rows(tmp_path))
