"""Rows from elsewhere: taken where the plan asks for them, refused where they disagree."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from tests.evaluate.conftest import Train
from tests.evaluate.plans import digests, plan, rename_weights, trained, write_rows
from waggle.core.errors import RecordError
from waggle.evaluate import sessions
from waggle.evaluate.episodes import RECORDS
from waggle.evaluate.executors import Inline
from waggle.evaluate.merge import merge
from waggle.evaluate.rows import FILE, read_rows
from waggle.evaluate.runner import rows_from_records, run_plan


def test_missing_rows_are_taken_once(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=2), here, Inline())
    run_plan(plan(seeds=4), there, Inline())
    assert merge(plan(seeds=3), here, there) == (1, 2, 1, 0)
    assert merge(plan(seeds=3), here, there) == (0, 3, 1, 0)
    assert {row.seed for row in read_rows(here)} == {10_000, 10_001, 10_002}
    assert run_plan(plan(seeds=3), here, Inline()) == (0, 3, 0)


def test_a_new_folder_takes_everything_with_its_sessions(tmp_path: Path) -> None:
    run_plan(plan(), tmp_path / "there", Inline())
    for _ in range(2):
        merge(plan(), tmp_path / "here", tmp_path / "there")
    (session,) = sessions.read(tmp_path / "here")
    assert session.episodes == 4 and session.updates == 96 and session.executor == "inline"


def test_sessions_of_methods_that_gave_nothing_stay_there(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    cells = plan(seeds=1)
    run_plan(
        [*cells, *(msgspec.structs.replace(c, method="another") for c in cells)], there, Inline()
    )
    played = sessions.read(there)[0]
    other = msgspec.structs.replace(played, methods=("another",), episodes=1)
    sessions.append(there, other)
    merge(plan(), here, there)
    assert other in sessions.read(there) and sessions.read(here) == [played]


def test_sessions_follow_rows_that_were_renamed_on_the_way(tmp_path: Path) -> None:
    """Merged under another name, then merged again: the session still has the first name."""
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    renamed = [msgspec.structs.replace(cell, method="other") for cell in plan(seeds=1)]
    run_plan(plan(seeds=1), first, Inline())
    merge(renamed, second, first)
    merge(renamed, third, second)
    assert sessions.read(third) == sessions.read(first) != []


def test_model_steps_may_differ_between_batches(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=1), here, Inline())
    (row,) = read_rows(here)
    write_rows(there, [msgspec.structs.replace(row, counters={**row.counters, "model_steps": 7})])
    assert merge(plan(seeds=1), here, there).known == 1


def test_kept_records_come_along(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=2), there, Inline(), keep=True)
    merge(plan(seeds=1), here, there)
    assert len(rows_from_records(plan(), here)) == 1
    assert rows_from_records(plan(), here) == read_rows(here)


def test_a_record_that_was_copied_in_part_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=1), there, Inline(), keep=True)

    def interrupted(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:50])
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copyfile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        merge(plan(seeds=1), here, there)
    assert not list((here / RECORDS).glob("*.gz"))


@pytest.mark.parametrize("claimed", [{"shock": False}, {"options": {"regime": "ports"}}])
def test_a_row_of_another_case_than_its_cell_is_refused(
    tmp_path: Path, claimed: dict[str, object]
) -> None:
    """Tables would count it in a column in which it was not played."""
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=1), there, Inline())
    write_rows(there, [msgspec.structs.replace(row, **claimed) for row in read_rows(there)])
    with pytest.raises(RecordError, match=f"its cell has {next(iter(claimed))}"):
        merge(plan(seeds=1), here, there)
    assert not here.exists()


def test_a_cell_is_known_under_another_name_of_its_method(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=2), there, Inline(), keep=True)
    renamed = [msgspec.structs.replace(cell, method="other") for cell in plan(seeds=3)]
    assert merge(renamed, here, there) == (2, 0, 0, 0)
    assert merge([*renamed, *plan(seeds=1)], here, there) == (1, 2, 0, 0)
    assert [row.method for row in read_rows(here)] == ["other", "other", "m"]
    assert len(rows_from_records(renamed, here)) == 2


@pytest.mark.parametrize("again", [False, True])
def test_a_cell_that_stands_there_twice_must_have_come_out_alike(
    tmp_path: Path, again: bool
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=1), there, Inline())
    (row,) = read_rows(there)
    twice, other = (msgspec.structs.replace(row, method=name) for name in ("twice", "other"))
    (wanted,) = (msgspec.structs.replace(cell, method="here") for cell in plan(seeds=1))
    write_rows(there, [row, twice])
    assert merge([wanted], here, there, again=again) == (1, 0, 1, 0)
    other = msgspec.structs.replace(other, scores={"score": -1.0})
    with (there / FILE).open("ab") as file:
        file.write(msgspec.json.encode(other) + b"\n")
    with pytest.raises(RecordError, match="came out differently as m and as other, and new may be"):
        merge([msgspec.structs.replace(wanted, method="new")], here, there, again=again)
    assert merge(plan(seeds=1), here, there, again=again).taken == 1, "its own name decides"


def test_a_cell_that_came_out_differently_takes_nothing(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=1), here, Inline())
    run_plan(plan(seeds=2), there, Inline())
    first, second = read_rows(there)
    forged = msgspec.structs.replace(first, scores={"score": -1.0})
    write_rows(there, [forged, second])
    with pytest.raises(RecordError, match=r"1 of 1 cells .* came out differently"):
        merge(plan(seeds=2), here, there)
    assert len(read_rows(here)) == 1


def rewritten(folder: Path, score: float) -> None:
    """Give every row of a folder another score, as another law would."""
    rows = [msgspec.structs.replace(r, scores={"score": score}) for r in read_rows(folder)]
    write_rows(folder, rows)


def test_again_replaces_rows_and_their_records(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=2), here, Inline(), keep=True)
    run_plan(plan(seeds=3), there, Inline())
    rewritten(here, -1.0)
    assert merge(plan(seeds=3), here, there, again=True) == (3, 0, 0, 0)
    assert [(row.seed, row.scores) for row in read_rows(here)] == [
        (row.seed, row.scores) for row in read_rows(there)
    ]
    # A record of the episode that was replaced would tell `--records` something else.
    assert rows_from_records(plan(seeds=3), here) == []


def test_records_without_rows_are_left_alone(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        run_plan(plan(seeds=1), folder, Inline(), keep=folder is here)
    (here / FILE).unlink()
    assert merge(plan(seeds=1), here, there).taken == 1
    assert rows_from_records(plan(seeds=1), here) == read_rows(there)


def test_rows_that_a_replacement_leaves_are_counted(tmp_path: Path) -> None:
    """Three seeds of a new law beside two of the old one are no five seeds."""
    here, there = tmp_path / "here", tmp_path / "there"
    run_plan(plan(seeds=4), here, Inline())
    run_plan(plan(seeds=1), there, Inline())
    assert merge(plan(), here, there, again=True) == (0, 1, 0, 0)
    rewritten(here, -1.0)
    assert merge(plan(), here, there, again=True) == (1, 0, 0, 3)


def test_rows_are_taken_in_the_order_of_the_plan(tmp_path: Path) -> None:
    run_plan(plan(), tmp_path / "there", Inline())
    backwards = b"".join((tmp_path / "there" / FILE).read_bytes().splitlines(keepends=True)[::-1])
    (tmp_path / "there" / FILE).write_bytes(backwards)
    merge(plan(), tmp_path / "here", tmp_path / "there")
    assert [row.seed for row in read_rows(tmp_path / "here")] == [10_000, 10_001, 10_002, 10_003]


def test_nothing_to_merge_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="waggle eval"):
        merge(plan(), tmp_path / "here", tmp_path / "nowhere")


def test_sessions_survive_a_line_that_is_none(tmp_path: Path) -> None:
    run_plan(plan(seeds=1), tmp_path, Inline())
    with (tmp_path / sessions.FILE).open("ab") as file:
        file.write(b'{"command": 3}\n\xff\n')
    assert len(sessions.read(tmp_path)) == 1


def test_a_merge_refuses_rows_of_other_weights(train: Train) -> None:
    run_plan(trained(3), Path("here"), Inline())
    train("bbbb")
    run_plan(trained(4)[2:], Path("there"), Inline())
    with pytest.raises(RecordError) as caught:
        merge(trained(), Path("here"), Path("there"))
    assert str(caught.value) == (
        "there: 2 rows of m, played by the weights bbbb, would lie beside rows of aaaa here; take "
        "them in place of those here with --again --merge, or leave the method out with --methods"
    )
    assert digests(Path("here")) == [(0, "aaaa"), (1, "aaaa"), (2, "aaaa")]
    # The cell that both have came out alike, but it is the new law's now.
    assert merge(trained(), Path("here"), Path("there"), again=True) == (2, 0, 0, 2)
    assert digests(Path("here")) == [(0, "aaaa"), (1, "aaaa"), (2, "bbbb"), (3, "bbbb")]
    assert merge(trained(), Path("here"), Path("there")) == (0, 2, 0, 0)


@pytest.mark.usefixtures("train")
def test_a_merge_refuses_cells_apart_and_a_folder_of_two_laws() -> None:
    run_plan(trained(1), Path("here"), Inline())
    run_plan(trained()[1:], Path("there"), Inline())
    assert merge(trained(2), Path("here"), Path("there")).taken == 1
    rename_weights(Path("there"), "aaaa", "cccc", "")
    with pytest.raises(RecordError, match="1 rows of m, played by the weights cccc, would lie"):
        merge(trained(), Path("here"), Path("there"))
    with pytest.raises(RecordError, match=r"2 rows of m, played by .* aaaa, cccc, are of several"):
        merge(trained(), Path("new"), Path("there"))
    assert not (Path("new") / FILE).exists()


@pytest.mark.usefixtures("train")
def test_a_merge_takes_rows_that_do_not_say() -> None:
    run_plan(trained(2), Path("here"), Inline())
    run_plan(trained(3), Path("there"), Inline())
    rename_weights(Path("there"), "", "", "")
    assert merge(trained(), Path("here"), Path("there")) == (1, 2, 0, 0)
    assert digests(Path("here")) == [(0, "aaaa"), (1, "aaaa"), (2, "")]
