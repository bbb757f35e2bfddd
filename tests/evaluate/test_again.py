"""A call with --again that was interrupted goes on; one that ended begins anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.evaluate.test_weights import Train, cells, of, train
from waggle.cli.main import main
from waggle.evaluate import runner
from waggle.evaluate.again import JOURNAL
from waggle.evaluate.executors import Inline
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import FILE, Row, read_rows
from waggle.evaluate.runner import Outcome, run_plan

__all__ = ["train"]

RUN = Path("run")


class Cut(Inline):
    """Plays some cells, then is interrupted."""

    def __init__(self, after: int) -> None:
        self._after = after

    def map(self, work: Any, jobs: Iterable[Any]) -> Iterator[Any]:
        yield from super().map(work, list(jobs)[: self._after])
        raise KeyboardInterrupt


def again(plan: Sequence[Cell], executor: Inline | None = None) -> tuple[Outcome, list[str]]:
    said: list[str] = []
    found = run_plan(plan, RUN, executor or Inline(), again=True, notice=said.append)
    return found, said


def interrupted(plan: Sequence[Cell], after: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        again(plan, Cut(after))


def test_what_was_played_before_the_interruption_is_not_played_twice(train: Train) -> None:
    run_plan(cells(), RUN, Inline())
    train("bbbb")
    interrupted(cells(), 1)
    interrupted(cells(), 2)
    found, said = again(cells())
    assert found == (1, 3, 0) and of(RUN) == [(k, "bbbb") for k in range(4)]
    assert said == [
        "going on with an interrupted --again: 3 cells have been played again; remove "
        f"{RUN / JOURNAL} to play all of them"
    ]
    assert not (RUN / JOURNAL).exists()
    assert again(cells()) == ((4, 0, 0), [])


def test_rows_of_a_law_that_has_changed_since_are_played_once_more(train: Train) -> None:
    run_plan(cells(), RUN, Inline())
    interrupted(cells(), 2)
    train("bbbb")
    assert again(cells())[0] == (4, 0, 0)
    assert of(RUN) == [(k, "bbbb") for k in range(4)]


def test_calls_of_other_cells_do_not_go_on_with_it(train: Train) -> None:
    run_plan(cells(), RUN, Inline())
    interrupted(cells(), 2)
    assert again(cells(3))[0] == (3, 0, 0)
    assert again(cells())[0] == (1, 3, 0)  # the other call has played them since, too
    assert again(cells())[0] == (4, 0, 0)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "b"}', '{"a": []}', "9" * 5000])
def test_a_journal_that_is_none_says_nothing(train: Train, text: str) -> None:
    run_plan(cells(2), RUN, Inline())
    (RUN / JOURNAL).write_text(text)
    assert again(cells(2)) == ((2, 0, 0), [])


def test_rows_that_were_moved_by_hand_begin_anew(train: Train) -> None:
    run_plan(cells(), RUN, Inline())
    interrupted(cells(), 2)
    (RUN / FILE).write_bytes(b"\n" + (RUN / FILE).read_bytes())
    assert again(cells()) == ((4, 0, 0), [])
    assert len(read_rows(RUN)) == 4 and not (RUN / JOURNAL).exists()


def test_a_first_run_with_again_goes_on_too(train: Train) -> None:
    interrupted(cells(), 3)
    assert again(cells())[0] == (1, 3, 0)


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
    assert "going on with an interrupted --again: 1 cells" in done.err
    name, planned, _, finished, _ = shown.splitlines()[-1].split()
    assert (name, planned, finished) == ("all", "3", "1")


def _second_is_interrupted() -> Any:
    from waggle.evaluate.episodes import play_cell

    played: list[int] = []

    def play(job: Any) -> Row:
        played.append(1)
        if len(played) == 2:
            raise KeyboardInterrupt
        return play_cell(job)

    return play
