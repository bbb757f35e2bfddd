"""The row file: what is cut, doctored, doubled or too long, and that nothing else is lost by it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.evaluate.plans import plan
from waggle import plugins
from waggle.core.errors import RecordError
from waggle.core.protocols import Decode, Request
from waggle.evaluate import rows
from waggle.evaluate.episodes import law_of
from waggle.evaluate.executors import Inline
from waggle.evaluate.rows import FILE, finished_rows, read_rows
from waggle.evaluate.runner import rows_from_records, run_plan
from waggle.laws.heuristic import Heuristic
from waggle.substrates.beacon import BeaconWorld


def lines_of(folder: Path) -> list[bytes]:
    return (folder / FILE).read_bytes().splitlines(keepends=True)


def test_a_broken_line_stops_a_run_and_costs_one_cell(tmp_path: Path) -> None:
    """A run that took it for an empty folder would play everything again."""
    run_plan(plan(), tmp_path, Inline())
    lines = lines_of(tmp_path)
    before = b"".join([*lines[:1], b'{"cell": "x", "method\n', *lines[2:]])
    (tmp_path / FILE).write_bytes(before)
    with pytest.raises(RecordError, match=r"line 2 is no row .* remove that line") as caught:
        run_plan(plan(), tmp_path, Inline())
    assert "\n" not in str(caught.value) and (tmp_path / FILE).read_bytes() == before
    (tmp_path / FILE).write_bytes(b"".join([*lines[:1], *lines[2:]]))
    assert run_plan(plan(), tmp_path, Inline()) == (1, 3, 0)


def test_a_whole_row_without_its_line_end_is_kept(tmp_path: Path) -> None:
    run_plan(plan(seeds=3), tmp_path, Inline())
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:-1])
    assert len(read_rows(tmp_path)) == 3
    assert run_plan(plan(seeds=3), tmp_path, Inline()) == (0, 3, 0)
    assert (tmp_path / FILE).read_bytes() == whole


def test_the_last_row_of_a_cell_counts_and_blank_lines_do_not(tmp_path: Path) -> None:
    run_plan(plan(seeds=2), tmp_path, Inline())
    first, second = read_rows(tmp_path)
    other = msgspec.json.encode(msgspec.structs.replace(first, scores={"score": 7.0}))
    with (tmp_path / FILE).open("ab") as file:
        file.write(b"\n  \n" + other + b"\n")
    found = {row.seed: row.scores["score"] for row in read_rows(tmp_path)}
    assert found == {first.seed: 7.0, second.seed: second.scores["score"]}


def test_a_line_without_end_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_plan(plan(seeds=1), tmp_path, Inline())
    monkeypatch.setattr(rows, "MAX_LINE", 1 << 20)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b"[" * (3 << 20))
    with pytest.raises(RecordError, match=r"line 2 is no row .over 1 MiB long"):
        read_rows(tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"injection": [99.0]}, {"injection": []}, {"old": [0.5]}, {"holders": [0.1, 0.2]}],
)
def test_a_course_that_does_not_fit_is_refused(
    tmp_path: Path, change: dict[str, list[float]]
) -> None:
    run_plan(plan(seeds=1), tmp_path, Inline())
    (row,) = read_rows(tmp_path)
    assert row.course
    broken = msgspec.structs.replace(row, course={**row.course, **change})
    (tmp_path / FILE).write_bytes(msgspec.json.encode(broken) + b"\n")
    with pytest.raises(RecordError, match=r"line 1 is no row .its course"):
        read_rows(tmp_path)


def test_no_rows_are_nothing_finished(tmp_path: Path) -> None:
    assert finished_rows(tmp_path) == finished_rows(tmp_path / "nowhere") == {}


def test_a_record_of_another_episode_than_its_row_is_refused(tmp_path: Path) -> None:
    run_plan(plan(seeds=1), tmp_path, Inline(), keep=True)
    (row,) = read_rows(tmp_path)
    other = msgspec.structs.replace(row, scores={"score": -1.0})
    (tmp_path / FILE).write_bytes(msgspec.json.encode(other) + b"\n")
    with pytest.raises(RecordError, match=r"another episode .* --again --keep"):
        rows_from_records(plan(seeds=1), tmp_path)
    (tmp_path / FILE).unlink()
    assert rows_from_records(plan(seeds=1), tmp_path) == [row]


@pytest.mark.parametrize("law", ["heuristic", "test-batched"])
@pytest.mark.parametrize(
    ("value", "kept"),
    [(np.float64(0.5), 0.5), (np.int64(3), 3.0), (True, 1.0), (2, 2.0), (None, None)],
)
def test_a_number_of_any_kind_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, law: str, value: object, kept: float | None
) -> None:
    monkeypatch.setattr(plugins, "get_metric", lambda name: lambda episode: value)
    assert run_plan(plan(law, seeds=2), tmp_path, Inline()) == (2, 0, 0)
    assert [set(row.metrics.values()) for row in read_rows(tmp_path)] == [{kept}] * 2


@pytest.mark.parametrize("law", ["heuristic", "test-batched"])
@pytest.mark.parametrize("value", ["much", [1.0], float("nan"), float("inf")])
def test_what_is_no_number_is_a_fault_of_its_metric_and_spoils_no_row_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, law: str, value: object
) -> None:
    monkeypatch.setattr(plugins, "get_metric", lambda name: lambda episode: value)
    assert run_plan(plan(law, seeds=2), tmp_path, Inline()) == (2, 0, 0)
    for row in read_rows(tmp_path):
        assert "give a finite number" in (row.faults or {})["score"]
        assert row.metrics["score"] is None


@pytest.mark.parametrize("law", ["heuristic", "test-batched"])
def test_an_episode_whose_score_is_no_number_keeps_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, law: str
) -> None:
    monkeypatch.setattr(BeaconWorld, "score", lambda world: {"score": float("nan")})
    assert run_plan(plan(law, seeds=2), tmp_path, Inline(), keep=True) == (0, 0, 2)
    assert rows_from_records(plan(law, seeds=2), tmp_path) == read_rows(tmp_path)


@pytest.mark.parametrize("law", ["heuristic", "test-batched"])
@pytest.mark.parametrize("error", [ZeroDivisionError("a bug\nof two lines"), SystemExit(3)])
def test_a_metric_that_breaks_loses_nothing_but_itself(
    tmp_path: Path, clean_registry: None, law: str, error: BaseException
) -> None:
    def broken(episode: object) -> float:
        raise error

    plugins.metric("broken")(broken)
    assert run_plan(plan(law, seeds=3), tmp_path, Inline()) == (3, 0, 0)
    for row in read_rows(tmp_path):
        assert row.metrics["broken"] is None and row.metrics["score"] is not None
        ((name, told),) = (row.faults or {}).items()
        known = "ZeroDivisionError: a bug of two lines", "it called sys.exit(3)"
        assert name == "broken" and told.startswith(known) and "(test_rows.py:" in told


@pytest.mark.parametrize("batched", [False, True])
def test_a_law_that_leaves_the_program_is_a_failed_cell(
    tmp_path: Path, clean_registry: None, batched: bool
) -> None:
    class Leaving(Heuristic):
        name = "leaving"

        def decide(self, requests: Sequence[Request]) -> list[Decode]:
            sys.exit("bye")

    Leaving.batched = batched  # type: ignore[attr-defined]
    plugins.law("leaving")(Leaving)
    assert run_plan(plan("leaving", seeds=2), tmp_path, Inline()) == (0, 0, 2)
    assert {"it called sys.exit('bye')" in row.error for row in read_rows(tmp_path)} == {True}
    law_of.cache_clear()
