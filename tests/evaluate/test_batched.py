"""Batched laws, here and in processes: the rows of playing alone, no episode lost to another's bug.

Processes are forked where they play laws of this file. Started afresh, as for a GPU, they know laws
of installed packages only, and each keeps to its part of the memory; the GPUs are made up.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.evaluate.plans import mixed, numbers, plan
from waggle import plugin_files
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Decode, Request
from waggle.engine import memory as gpu_memory
from waggle.evaluate import batched, sessions
from waggle.evaluate.batched import share_out
from waggle.evaluate.executors import Inline
from waggle.evaluate.rows import failed_row, read_rows
from waggle.evaluate.runner import run_plan
from waggle.evaluate.selection import cost
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


@pytest.mark.usefixtures("forked")
def test_processes_give_the_rows_of_playing_alone(tmp_path: Path) -> None:
    run_plan(plan(), tmp_path / "alone", Inline())
    done = run_plan(plan("test-batched"), tmp_path / "there", Inline(), processes=2, width=8)
    assert done == (4, 0, 0)
    assert numbers(read_rows(tmp_path / "alone")) == numbers(read_rows(tmp_path / "there"))


@pytest.mark.usefixtures("forked")
def test_cells_of_a_dead_process_are_failures_and_are_played_next_time(tmp_path: Path) -> None:
    deadly = [
        msgspec.structs.replace(c, law_options={"deadly": True}) for c in plan("test-fragile")
    ]
    assert run_plan(deadly, tmp_path, Inline(), processes=2) == (0, 0, 4)
    assert all("process" in row.error for row in read_rows(tmp_path))


def test_what_a_process_reports_just_before_it_ends_is_not_lost() -> None:
    """It reports and ends between its parent's wait for a report and its look at the process."""
    row = failed_row(plan()[0], "played")
    living, waiting = [True], [row, None]

    def receive(timeout: float) -> Any:
        if living[0]:
            living[0] = False
            raise queue.Empty
        if not waiting:
            raise queue.Empty
        return waiting.pop(0)

    process = SimpleNamespace(is_alive=lambda: living[0])
    assert list(batched._reports(receive, [process])) == [row]


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


@pytest.mark.usefixtures("forked")
def test_laws_in_shared_processes_give_the_rows_of_playing_alone(tmp_path: Path) -> None:
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
        [*absent, *cells], tmp_path / "there", Inline(), processes=2, width=8,
        left_out=lambda methods, reason: told.extend(methods),
    )  # fmt: skip
    assert done == (15, 0, 0) and told == ["gone"]
    run_plan(plan(seeds=5), tmp_path / "alone", Inline())
    for name in ("a", "b", "c"):
        own = [row for row in read_rows(tmp_path / "there") if row.method == name]
        assert numbers(own) == numbers(read_rows(tmp_path / "alone"))
    (session,) = sessions.read(tmp_path / "there")
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
    ((methods, reason),) = told
    assert methods == ["m"] and reason.startswith("FileNotFoundError: no weights here (test_")
    with pytest.raises(ConfigError, match=r"no weights here .*; or leave it out with --methods"):
        run_plan(cells, tmp_path / "strict", Inline(), processes=processes)


def test_cells_are_shared_out_so_that_processes_end_together() -> None:
    cells = mixed()
    shares = [[c for _, some in part for c in some] for part in share_out([cells], 3)]
    assert sorted(c.id for share in shares for c in share) == sorted(c.id for c in cells)
    loads = [sum(map(cost, share)) for share in shares]
    assert max(loads) < 1.05 * sum(loads) / 3 + 2_000
    for share in shares:
        assert [cost(c) for c in share] == sorted(map(cost, share), reverse=True)
    assert [len(share) for share in share_out([cells[:2]], 4)] == [1, 1, 0, 0]


def test_several_laws_are_cut_into_parts_of_neighbours() -> None:
    laws = [mixed(), [], mixed()[:10], mixed(), mixed()]
    shares = share_out(laws, 3)
    dealt = [(place, c.id) for share in shares for place, some in share for c in some]
    assert sorted(dealt) == sorted((k, c.id) for k, cells in enumerate(laws) for c in cells)
    loads = [sum(cost(c) for _, some in share for c in some) for share in shares]
    assert max(loads) - min(loads) <= 2 * max(map(cost, mixed()))
    assert [[place for place, _ in share] for share in shares] == [[0, 2], [2, 3], [3, 4]]


PACKAGE = '''
import os
import sys
from types import SimpleNamespace

from waggle.laws.heuristic import Heuristic


class Lodger(Heuristic):
    """Writes down, in a file for each process, which part of which GPU it is kept to."""

    name = "lodger"
    batched = True

    def __init__(self, told: str) -> None:
        super().__init__()
        self._told = told

    def load(self) -> None:
        assert "torch" not in sys.modules, "a fresh process has no torch yet"
        cuda = SimpleNamespace(
            is_available=lambda: True, device_count=lambda: 2,
            set_per_process_memory_fraction=self._kept,
        )
        sys.modules["torch"] = SimpleNamespace(cuda=cuda)

    def _kept(self, fraction: float, device: int) -> None:
        with open(f"{self._told}/{os.getpid()}", "a") as file:
            file.write(f"{device} {fraction}\\n")
'''


@pytest.fixture
def lodger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the law where processes started from here find it; return where it writes."""
    site, told = tmp_path / "site", tmp_path / "told"
    facts = site / "waggle_lodger-1.dist-info"
    for folder in (facts, told):
        folder.mkdir(parents=True)
    (site / "waggle_lodger.py").write_text(PACKAGE)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: waggle-lodger\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[waggle.laws]\nlodger = waggle_lodger:Lodger\n")
    monkeypatch.syspath_prepend(site)
    # What is installed is looked up once in a process.
    fresh = plugin_files.installed.__wrapped__
    monkeypatch.setattr(plugin_files, "installed", fresh)
    monkeypatch.delenv(gpu_memory.SHARE, raising=False)
    return told


def test_every_process_keeps_to_its_part_of_every_gpu(lodger: Path, tmp_path: Path) -> None:
    assert batched.START == "spawn"
    cells = [msgspec.structs.replace(c, law_options={"told": str(lodger)}) for c in plan("lodger")]
    assert run_plan(cells, tmp_path / "there", Inline(), processes=2, width=8) == (4, 0, 0)
    told = {path.name: path.read_text() for path in lodger.iterdir()}
    part = (1 - gpu_memory.RESERVE) / 2
    assert len(told) == 2 and str(os.getpid()) not in told
    assert set(told.values()) == {f"0 {part}\n1 {part}\n"}
    run_plan(plan(), tmp_path / "alone", Inline())
    assert numbers(read_rows(tmp_path / "there")) == numbers(read_rows(tmp_path / "alone"))


def test_a_bad_share_of_the_gpu_is_said_before_processes_start(
    lodger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gpu_memory.SHARE, "half")
    cells = [msgspec.structs.replace(c, law_options={"told": str(lodger)}) for c in plan("lodger")]
    with pytest.raises(ConfigError, match="WAGGLE_GPU_SHARE='half': set it to a part"):
        run_plan(cells, tmp_path / "there", Inline(), processes=2)
    assert not list(lodger.iterdir())
