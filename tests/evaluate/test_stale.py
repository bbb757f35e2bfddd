"""Which finished rows count: rows name the weights that played them, and `--again` goes on.

A law that was trained again is not continued beside rows of the older one. A call with `--again`
that was interrupted goes on; one that ended begins anew.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.evaluate.conftest import Train
from tests.evaluate.plans import Trained, digests, plan, rename_weights, trained, write_rows
from waggle.cli.main import main
from waggle.core.errors import ConfigError, RecordError
from waggle.evaluate import episodes, runner, sessions
from waggle.evaluate.executors import Inline
from waggle.evaluate.plan import Cell
from waggle.evaluate.replace import FOLDER, play_again
from waggle.evaluate.rows import FILE, Row, failed_row, read_rows
from waggle.evaluate.runner import rows_from_records, run_plan
from waggle.laws.digest import digest_of
from waggle.laws.heuristic import Heuristic

RUN = Path("run")


@pytest.mark.usefixtures("train", "forked")
@pytest.mark.parametrize(("batched", "processes"), [(False, 1), (True, 1), (True, 2)])
def test_rows_name_the_weights_however_they_are_played(batched: bool, processes: int) -> None:
    run_plan(trained(batched=batched), RUN, Inline(), processes=processes)
    assert digests(RUN) == [(seed, "aaaa") for seed in range(4)]


@pytest.mark.usefixtures("train")
def test_rows_of_rules_cells_and_records_stay_as_they_are() -> None:
    run_plan(plan(seeds=1), Path("rules"), Inline())
    line = (Path("rules") / FILE).read_bytes()
    assert b"weights" not in line and line.endswith(b',"error":""}\n')
    run_plan(trained(1), RUN, Inline(), keep=True)
    (row,) = read_rows(RUN)
    (record,) = (RUN / "records").iterdir()
    assert row.cell == trained(1)[0].id and row.digest == "aaaa"
    assert b"aaaa" not in gzip.decompress(record.read_bytes())


@pytest.mark.usefixtures("train")
def test_rows_measured_from_records_keep_their_weights() -> None:
    run_plan(trained(2), RUN, Inline(), keep=True)
    assert rows_from_records(trained(2), RUN) == read_rows(RUN)
    (RUN / FILE).unlink()
    assert {row.digest for row in rows_from_records(trained(2), RUN)} == {""}


@pytest.mark.usefixtures("train")
@pytest.mark.parametrize("text", ["", "<b>", "A", "0" * 65])
def test_a_digest_that_is_none_is_no_row(text: str) -> None:
    run_plan(trained(1), RUN, Inline())
    path = RUN / FILE
    path.write_bytes(path.read_bytes().replace(b'"aaaa"', f'"{text}"'.encode()))
    with pytest.raises(RecordError, match=r"line 1 is no row"):
        read_rows(RUN)


class Speechless(Heuristic):
    """A law that fails when it is asked for its weights."""

    @property
    def digest(self) -> str:
        raise ZeroDivisionError("a bug")


def test_what_a_law_says_is_brought_into_form() -> None:
    made = Trained()
    for said, kept in (("0af", 3), ("version 2 of it", 12), ("0" * 65, 12), ("\ud800", 12), (7, 0)):
        made.digest = said  # type: ignore[assignment]
        assert len(digest_of(made)) == kept
    assert digest_of(Heuristic()) == digest_of(Speechless()) == ""


def test_a_law_that_was_trained_again_is_not_continued(train: Train) -> None:
    run_plan(trained(2), RUN, Inline())
    assert run_plan(trained(3), RUN, Inline()) == (1, 2, 0)
    train("bbbb")
    before = (RUN / FILE).read_bytes()
    with pytest.raises(ConfigError) as caught:
        run_plan(trained(), RUN, Inline())
    assert str(caught.value) == (
        "method 'm': 3 of 3 finished rows were played by other weights (aaaa) than the law has now "
        "(bbbb); --again --methods m plays them again; or leave it out with --methods"
    )
    assert (RUN / FILE).read_bytes() == before
    train("aaaa")
    assert run_plan(trained(), RUN, Inline()) == (1, 3, 0)


def test_other_methods_go_on_and_finished_ones_are_told_too(train: Train) -> None:
    both = [*trained(2), *trained(2, method="n"), *plan(seeds=3)]
    mixed = [msgspec.structs.replace(c, method="rule") if c.law == "heuristic" else c for c in both]
    run_plan(mixed[:4], RUN, Inline())
    train("bbbb")
    told: list[tuple[list[str], str]] = []
    done = run_plan(
        mixed, RUN, Inline(),
        left_out=lambda methods, reason: told.append((list(methods), reason)),
    )  # fmt: skip
    assert done == (3, 4, 0)
    ((methods, reason),) = told
    assert methods == ["m", "n"] and reason.startswith("4 of 4 finished rows were played by other")
    assert reason.endswith("; --again --methods m,n plays them again")  # and no rule anew


def test_again_plays_with_the_new_weights_and_rows_that_stay_are_stale(train: Train) -> None:
    run_plan(trained(), RUN, Inline())
    train("bbbb")
    play_again(trained(1), RUN, Inline(), whole=trained())
    assert digests(RUN) == [(0, "bbbb"), (1, "aaaa"), (2, "aaaa"), (3, "aaaa")]
    # What was left of the older law keeps the part that has none of it from going on.
    with pytest.raises(ConfigError, match="3 of 4 finished rows"):
        run_plan(trained(1), RUN, Inline(), whole=trained())
    play_again(trained(), RUN, Inline())
    assert {digest for _, digest in digests(RUN)} == {"bbbb"}
    assert run_plan(trained(), RUN, Inline()) == (0, 4, 0)


@pytest.mark.usefixtures("train")
def test_rows_that_do_not_say_count_and_are_named_by_playing_again() -> None:
    run_plan(trained(2), RUN, Inline())
    rename_weights(RUN, "", "")
    assert run_plan(trained(3), RUN, Inline()) == (1, 2, 0)
    assert digests(RUN) == [(0, ""), (1, ""), (2, "aaaa")]
    play_again(trained(2), RUN, Inline())
    assert digests(RUN) == [(0, "aaaa"), (1, "aaaa"), (2, "aaaa")]


def test_a_law_that_cannot_be_made_or_told_makes_nothing_stale(train: Train) -> None:
    run_plan(trained(2), RUN, Inline())
    train("")
    assert run_plan(trained(2), RUN, Inline()) == (0, 2, 0)
    gone = [msgspec.structs.replace(cell, law="no-such-law") for cell in trained(2)]
    rows = [
        msgspec.structs.replace(row, cell=cell.id)
        for row, cell in zip(read_rows(RUN), gone, strict=True)
    ]
    write_rows(RUN, rows)
    assert run_plan(gone, RUN, Inline()) == (0, 2, 0)


RECIPE = """title = "Small"
[methods.m]
law = "test-trained"
[methods.rule]
law = "heuristic"
[[blocks]]
methods = ["m", "rule"]
tasks = ["beacon"]
n = [4]
seeds = [10000, 10001]
rounds = [3]
"""


def test_the_command_says_it_in_one_line_and_the_report_under_its_tables(
    train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("small.toml").write_text(RECIPE)
    call = ["eval", "small.toml", "--executor", "inline", "--out", "run"]
    assert main([*call, "--seeds", "1"]) == 0
    train("bbbb")
    capsys.readouterr()
    assert main(call) == 0
    said = " ".join(capsys.readouterr().err.split())
    stale = "1 of 1 finished rows were played by other weights (aaaa) than the law has now (bbbb)"
    assert f"left out: m ({stale}; --again --methods m plays them again)" in said
    assert main([*call, "--dry-run"]) == 0
    assert f"left out: m ({stale}" in " ".join(capsys.readouterr().err.split())
    assert main([*call, "--methods", "m"]) != 0
    assert stale in " ".join(capsys.readouterr().err.split())
    assert main(["report", "run"]) == 0 and "MIXED" not in Path("run/report.md").read_text()
    rows = {row.seed: row for row in read_rows(RUN) if row.method == "m"}
    assert list(rows) == [10_000]
    assert main([*call, "--again", "--methods", "m"]) == 0
    forge(RUN, "cccc")
    capsys.readouterr()
    assert main(["report", "run"]) == 0
    text = Path("run/report.md").read_text()
    assert text.count("m: episodes 1 by bbbb, 1 by cccc") == 2  # at the top, and under the table


def forge(folder: Path, digest: str) -> None:
    """Say of the last row of the trained law that other weights played it."""
    last: Row = [row for row in read_rows(folder) if row.method == "m"][-1]
    with (folder / FILE).open("ab") as file:
        file.write(msgspec.json.encode(msgspec.structs.replace(last, weights=digest)) + b"\n")


class Cut(Inline):
    """Plays some cells, then is interrupted."""

    def __init__(self, after: int) -> None:
        self._after = after

    def map(self, work: Any, jobs: Iterable[Any]) -> Iterator[Any]:
        yield from super().map(work, list(jobs)[: self._after])
        raise KeyboardInterrupt


def interrupted(plan: Sequence[Cell], after: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        play_again(plan, RUN, Cut(after))


def test_what_was_played_before_the_interruption_is_not_played_twice(train: Train) -> None:
    run_plan(trained(), RUN, Inline())
    train("bbbb")
    interrupted(trained(), 1)
    interrupted(trained(), 2)
    assert digests(RUN) == [(k, "aaaa") for k in range(4)]  # until all of them are played
    assert play_again(trained(), RUN, Inline()) == (1, 3, 0)
    assert digests(RUN) == [(k, "bbbb") for k in range(4)] and not (RUN / FOLDER).exists()
    assert play_again(trained(), RUN, Inline()) == (4, 0, 0)


def test_rows_of_a_law_that_has_changed_since_are_played_once_more(train: Train) -> None:
    run_plan(trained(), RUN, Inline())
    interrupted(trained(), 2)
    train("bbbb")
    assert play_again(trained(), RUN, Inline()) == (4, 0, 0)
    assert digests(RUN) == [(k, "bbbb") for k in range(4)]


def test_a_first_run_with_again_goes_on_too(train: Train) -> None:
    interrupted(trained(), 3)
    assert play_again(trained(), RUN, Inline()) == (1, 3, 0)


class Dead(Inline):
    """Every call of the law fails."""

    def map(self, work: Any, jobs: Iterable[Any]) -> Iterator[Any]:
        yield from (failed_row(cell, "no answer") for cell, _ in list(jobs))


@pytest.mark.usefixtures("train")
def test_failures_of_another_call_do_not_take_the_place_of_results() -> None:
    one, two = trained(2), trained(2, method="other")
    run_plan([*one, *two], RUN, Inline())
    assert play_again(one, RUN, Dead(), whole=[*one, *two]).failed == 2
    assert play_again(two, RUN, Inline(), whole=[*one, *two]) == (2, 0, 0)
    assert [row.error for row in read_rows(RUN)] == [""] * 4 and not (RUN / FOLDER).exists()


@pytest.mark.usefixtures("train")
@pytest.mark.parametrize("changed", [False, True])
def test_a_record_of_an_episode_that_is_replaced_goes(changed: bool) -> None:
    run_plan(trained(1), RUN, Inline(), keep=True)
    (row,) = read_rows(RUN)
    if changed:
        write_rows(RUN, [msgspec.structs.replace(row, scores={"score": -1.0})])
    play_again(trained(1), RUN, Inline())
    assert read_rows(RUN) == [row] and len(list((RUN / "records").iterdir())) == 1 - changed


def test_sessions_and_kept_records_of_new_rows_come_along(train: Train) -> None:
    run_plan(trained(1), RUN, Inline(), keep=True)
    train("bbbb")
    (record,) = (RUN / "records").iterdir()
    record.unlink()
    play_again(trained(2), RUN, Inline(), keep=True)
    assert [row.digest for row in rows_from_records(trained(2), RUN)] == ["bbbb", "bbbb"]
    with (RUN / sessions.FILE).open("ab") as file:
        file.write(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    assert [session.episodes for session in sessions.read(RUN)] == [1, 2]


def test_the_command_goes_on_and_counts_what_is_left(
    train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("r.toml").write_text(
        'title = "T"\n[methods.m]\nlaw = "test-trained"\n[[blocks]]\nmethods = ["m"]\n'
        'tasks = ["beacon"]\nn = [4]\nrounds = [3]\nseeds = [10000, 10001, 10002]\n'
    )
    call = ["eval", "r.toml", "--out", "run", "--executor", "inline"]
    assert main(call) == 0
    with monkeypatch.context() as patch:
        patch.setattr(runner, "play_cell", _second_is_interrupted())
        assert main([*call, "--again"]) != 0
    capsys.readouterr()
    assert main([*call, "--again", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert main([*call, "--again"]) == 0
    done = capsys.readouterr()
    assert "2 episodes played, 1 known, 0 failed" in done.out
    name, planned, _, finished, _ = shown.splitlines()[-1].split()
    assert (name, planned, finished) == ("all", "3", "1")


def _second_is_interrupted() -> Any:
    played: list[int] = []

    def play(job: Any) -> Row:
        played.append(1)
        if len(played) == 2:
            raise KeyboardInterrupt
        return episodes.play_cell(job)

    return play
