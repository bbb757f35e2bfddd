"""Lockstep and lanes: the rows of playing alone, and no episode lost to another's bug."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.evaluate.test_runner import numbers, plan
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Decode, Request
from waggle.evaluate import lanes, sessions
from waggle.evaluate.costs import cost, counts, deal, deal_laws, decisions
from waggle.evaluate.executors import Inline
from waggle.evaluate.plan import Cell
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


@law("test-labelled")
class Labelled(Heuristic):
    """A batched law of which there are several."""

    name = "test-labelled"
    batched = True

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label


@law("test-absent")
class AbsentLaw(Heuristic):
    """A batched law without weights."""

    name = "test-absent"
    batched = True

    def load(self) -> None:
        raise FileNotFoundError("no weights here")


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


def mixed() -> list[Cell]:
    """A plan as skewed as the primary matrix: a few long episodes, many short ones."""
    cases = [
        Case(substrate, task, n, seed)
        for substrate, task in (("swarmbench", "pursuit"), ("silo", "I-05"), ("silo", "III-26"))
        for n in (16, 64)
        for seed in range(10_000, 10_005)
    ]
    return [Cell("m", "heuristic", {}, case, "shuffled", "sync", {}, {}) for case in cases]


def test_cells_are_dealt_so_that_lanes_end_together() -> None:
    cells = mixed()
    assert decisions(cells[0]) == 1_600 and decisions(cells[-1]) == 640
    hands = deal(cells, 3)
    assert sorted(c.id for hand in hands for c in hand) == sorted(c.id for c in cells)
    loads = [sum(map(cost, hand)) for hand in hands]
    assert max(loads) < 1.05 * sum(loads) / 3 + 2_000
    for hand in hands:
        assert [cost(c) for c in hand] == sorted(map(cost, hand), reverse=True)
    assert [len(hand) for hand in deal(cells[:2], 4)] == [1, 1, 0, 0]


def test_a_case_that_cannot_be_opened_costs_nothing() -> None:
    bad = msgspec.structs.replace(mixed()[0], case=Case("beacon", "beacon", 0, 10_000))
    assert decisions(bad) == 0 and cost(bad) == 0


def test_counts_leave_out_what_is_finished() -> None:
    cells = mixed()[:2]
    (row,) = counts(cells, {("m", cells[0].id)})
    assert row == ("m", 2, 3_200, 1, 1_600)


def test_several_laws_share_hands_and_each_hand_has_neighbours_only() -> None:
    laws = [mixed(), [], mixed()[:10], mixed(), mixed()]
    hands = deal_laws(laws, 3)
    dealt = [(place, c.id) for hand in hands for place, some in hand for c in some]
    assert sorted(dealt) == sorted((k, c.id) for k, cells in enumerate(laws) for c in cells)
    loads = [sum(cost(c) for _, some in hand for c in some) for hand in hands]
    assert max(loads) - min(loads) <= 2 * max(map(cost, mixed()))
    assert [[place for place, _ in hand] for hand in hands] == [[0, 2], [2, 3], [3, 4]]


@pytest.mark.usefixtures("forked")
def test_laws_in_shared_lanes_give_the_rows_of_playing_alone(tmp_path: Path) -> None:
    plans = [
        [
            msgspec.structs.replace(c, method=name, law_options={"label": name})
            for c in plan("test-labelled", 5)
        ]
        for name in ("a", "b", "c")
    ]
    cells = [cell for some in plans for cell in some]
    absent = [msgspec.structs.replace(c, method="gone") for c in plan("test-absent")]
    told: list[str] = []
    done = run_plan(
        [*absent, *cells], tmp_path / "lanes", Inline(), processes=2, width=8,
        left_out=lambda methods, reason: told.extend(methods),
    )  # fmt: skip
    assert done == (15, 0, 0) and told == ["gone"]
    run_plan(plan(seeds=5), tmp_path / "alone", Inline())
    for name in ("a", "b", "c"):
        own = [row for row in read_rows(tmp_path / "lanes") if row.method == name]
        assert numbers(own) == numbers(read_rows(tmp_path / "alone"))
    (session,) = sessions.read(tmp_path / "lanes")
    assert session.methods == ("a", "b", "c") and session.episodes == 15


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("processes", [1, 2])
def test_a_law_without_weights_is_left_out_or_ends_the_run(tmp_path: Path, processes: int) -> None:
    cells = [*plan("test-absent"), *plan(seeds=2)]
    told: list[tuple[list[str], str]] = []
    done = run_plan(
        cells, tmp_path, Inline(), processes=processes,
        left_out=lambda methods, reason: told.append((list(methods), reason)),
    )  # fmt: skip
    assert done == (2, 0, 0) and len(read_rows(tmp_path)) == 2
    assert told == [(["m"], "FileNotFoundError: no weights here")]
    with pytest.raises(ConfigError, match="no weights here; or leave it out with --methods"):
        run_plan(cells, tmp_path / "strict", Inline(), processes=processes)
