"""A plan gives the same rows on every executor, resumes, and reports what failed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.evaluate.plans import Batched, numbers, plan
from waggle.core.errors import ConfigError, RecordError
from waggle.core.protocols import Case, Decode, Request
from waggle.evaluate.episodes import record_path
from waggle.evaluate.executors import Inline, Processes
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import FILE, read_rows
from waggle.evaluate.runner import rows_from_records, run_plan
from waggle.plugins import get_substrate, law
from waggle.runtime.records import read
from waggle.runtime.replay import replay


@law("test-broken")
class Broken:
    """A law with a bug."""

    name = "test-broken"

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        raise ZeroDivisionError("a bug")


def test_inline_processes_and_lockstep_agree(tmp_path: Path) -> None:
    run_plan(plan(), tmp_path / "a", Inline())
    run_plan(plan(), tmp_path / "b", Processes(2))
    run_plan(plan("test-batched"), tmp_path / "c", Inline())
    assert max(Batched.sizes) == 24
    a, b, c = (read_rows(tmp_path / x) for x in "abc")
    assert numbers(a) == numbers(b) == numbers(c) and len(a) == 4


def fragile(job: tuple[int, Path]) -> int:
    """Square a number; the first call for 2 ends the process, every call for 3."""
    number, folder = job
    mark = folder / str(number)
    if number == 3 or (number == 2 and not mark.exists()):
        mark.touch()
        os._exit(1)
    return number * number


def test_a_dead_worker_costs_one_more_try(tmp_path: Path) -> None:
    done = Processes(2).map(fragile, [(number, tmp_path) for number in (0, 1, 2, 4)])
    assert sorted(done) == [0, 1, 4, 16]
    with pytest.raises(ConfigError, match=r"1 cells are left; .*fewer --workers"):
        list(Processes(1).map(fragile, [(3, tmp_path)]))


def test_finished_cells_are_not_played_again(tmp_path: Path) -> None:
    assert run_plan(plan(seeds=2), tmp_path, Inline()) == (2, 0, 0)
    assert run_plan(plan(), tmp_path, Inline()) == (2, 2, 0)


def test_an_interrupted_run_loses_only_its_last_line(tmp_path: Path) -> None:
    run_plan(plan(seeds=3), tmp_path, Inline())
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-40])
    assert run_plan(plan(seeds=3), tmp_path, Inline()) == (1, 2, 0)
    assert len(read_rows(tmp_path)) == 3


def test_failures_are_reported_and_tried_again_next_time(tmp_path: Path) -> None:
    impossible = msgspec.structs.replace(plan()[0], case=Case("beacon", "beacon", 0, 10_000))
    mixed = [*plan("test-broken", 1), impossible, *plan(seeds=1)]
    assert run_plan(mixed, tmp_path, Inline()) == (1, 0, 2)
    errors = [row.error for row in read_rows(tmp_path) if row.error]
    assert any("ZeroDivisionError" in e for e in errors) and any("-n" in e for e in errors)
    assert run_plan(mixed, tmp_path, Inline()) == (0, 1, 2)


def test_tables_regenerate_from_records(tmp_path: Path) -> None:
    run_plan(plan(), tmp_path, Inline(), keep=True)
    assert numbers(rows_from_records(plan(), tmp_path)) == numbers(read_rows(tmp_path))
    run_plan(plan("test-batched"), tmp_path / "l", Inline(), keep=True)
    assert numbers(rows_from_records(plan("test-batched"), tmp_path / "l")) == numbers(
        read_rows(tmp_path)
    )


def test_thin_records_give_the_same_rows_and_cannot_be_replayed(tmp_path: Path) -> None:
    cases = [
        Case("swarmbench", "pursuit", 8, 22_000, None, True),
        Case("silo", "III-26", 8, 22_000, None, True),
    ]
    cells = [Cell("m", "expert", {}, case, "shuffled", "sync", {}, {}) for case in cases]
    for keep, name in ((True, "whole"), ("measures", "thin")):
        run_plan(cells, tmp_path / name, Inline(), keep=keep)  # type: ignore[arg-type]
    whole, small = (rows_from_records(cells, tmp_path / name) for name in ("whole", "thin"))
    assert whole == small == read_rows(tmp_path / "thin")
    sizes = {
        name: sum(p.stat().st_size for p in (tmp_path / name / "records").iterdir())
        for name in ("whole", "thin")
    }
    assert sizes["thin"] < sizes["whole"] / 4
    record = read(record_path(tmp_path / "thin" / "records", cells[0]))
    with pytest.raises(RecordError, match="measures only; play its case again with --keep"):
        replay(record, get_substrate("swarmbench").open(cases[0]))


def test_foreign_rows_are_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"cell": 3}\n')
    with pytest.raises(RecordError, match="line 1 is no row"):
        read_rows(tmp_path)
    with pytest.raises(RecordError, match="waggle eval"):
        read_rows(tmp_path / "nowhere")


def test_report_from_records_equals_report_from_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from waggle.cli.main import main

    recipe = tmp_path / "small.toml"
    recipe.write_text(
        'title = "Small"\n[methods.m]\nlaw = "heuristic"\n[[blocks]]\nmethods = ["m"]\n'
        'tasks = ["beacon"]\nn = [4]\nseeds = [10000, 10001]\nrounds = [3]\n'
    )
    out = tmp_path / "run"
    assert main(["eval", str(recipe), "--keep", "--executor", "inline", "--out", str(out)]) == 0
    texts = []
    for flags in ([], ["--records"]):
        assert main(["report", str(out), *flags]) == 0
        texts.append((out / "report.md").read_text())
    assert texts[0] == texts[1] and "heuristic" in texts[0]
