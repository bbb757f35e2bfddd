"""Jobs side by side: one that fails, dies or runs out of memory costs no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scd.run import failing
from waggle.core.errors import WaggleError
from waggle.scd.config import Recipe
from waggle.scd.run import factorial, workers
from waggle.scd.run.workers import run_all, started


def test_a_worker_imports_what_training_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", threads.append)
    workers._open(3)
    assert threads == [3]


@pytest.mark.usefixtures("workers")
def test_an_arm_that_fails_or_dies_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.scd.run.workers._open", failing.unprepared)
    arms = factorial.cells(Recipe(), tmp_path, tmp_path, [0, 1], views=1, native=0)
    planned = [failing.Failing(*arm) for arm in arms]
    lost: dict[str, str] = {}
    found = list(run_all(planned, 2, lambda cell, why: lost.update({cell.name: why})))
    assert sorted((r["seed"], r["arm"]) for r in found) == sorted(
        (c.seed, c.arm)
        for c in planned
        if c.name not in ("seed 0 orbit", "seed 0 field", "seed 1 scd")
    )
    assert lost["seed 0 field"] == "ZeroDivisionError: a bug"
    assert "died 2 times" in lost["seed 0 orbit"] and len(lost) == 3
    assert "out of memory" in lost["seed 1 scd"], "tried again, and told when that failed too"
    with (
        started(planned, 1) as none,
        started(planned[2:5:2], 2) as team,
        pytest.raises(WaggleError, match="seed 0 field: ZeroDivisionError"),
    ):
        assert none is None and team is not None
        list(run_all([planned[2], planned[4]], 2, workers=team))
    lost.clear()
    here = list(run_all(planned[2:4], 1, lambda cell, why: lost.update({cell.name: why})))
    assert [r["arm"] for r in here] == ["scd"]
    assert lost == {"seed 0 field": "ZeroDivisionError: a bug"}


@pytest.mark.usefixtures("workers")
def test_a_job_out_of_memory_is_tried_again_when_others_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.scd.run.workers._open", failing.unprepared)
    arms = factorial.cells(Recipe(), tmp_path, tmp_path, [0], views=1, native=0)[:3]
    found = list(run_all([failing.Crowded(*arm) for arm in arms], 3))
    assert found[0]["arm"] == "decision" and len(found) == 3
    starved = int((tmp_path / "starved").read_text())
    assert starved not in {row["process"] for row in found}, "it may keep what it had"
