"""Progress: a line that is rewritten in a notebook, lines in a pipe, nothing when it is quiet."""

from __future__ import annotations

import io
import itertools
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from waggle.api import progress


class Page:
    """What a notebook shows: one text, rewritten."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def display(self, data: dict[str, str], **_: Any) -> Page:
        self.texts.append(data["text/plain"])
        return self

    def update(self, data: dict[str, str], **_: Any) -> None:
        self.texts.append(data["text/plain"])


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    shown = Page()
    kernel = SimpleNamespace(kernel="here")
    fake = SimpleNamespace(get_ipython=lambda: kernel, display=shown)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    return shown


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every look takes half a second."""
    ticks = itertools.count()
    monkeypatch.setattr(progress, "monotonic", lambda: next(ticks) / 2)


def count(**given: Any) -> None:
    with progress.counting("episodes", 3, **given) as step:
        for word in ("a", "b", "c"):
            step(word, failed=word == "b")


def test_a_notebook_shows_one_line_once_it_takes_a_while(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 1.5)
    count()
    assert page.texts == []
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    count()
    assert page.texts == ["2 of 3 episodes  2/s  0 s left  1 failed  b",
                          "3 of 3 episodes  2/s  1 failed  c"]  # fmt: skip
    count(quiet=True)
    assert len(page.texts) == 2


def test_a_pipe_shows_lines_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    count()
    count(quiet=True, lines=True)
    assert capsys.readouterr() == ("", "")
    count(lines=True)
    assert capsys.readouterr().err.splitlines()[-1] == "3 of 3 episodes  2/s  1 failed  (c)"


def test_a_pipe_gets_a_line_for_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.Progress() as tell:
        for done in range(501, 1001):  # what was done before is not counted as fast
            tell("updates", done, 1000)
        tell("others", 1, 4, left=7200.0, line=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6, "every tenth, and the one that was asked for"
    assert lines[-2].startswith("1,000 of 1,000 updates  2/s")
    assert lines[-1] == "1 of 4 others  2 h 0 min left"


def test_a_second_stage_has_a_pace_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter((0.0, 100.0, 200.0, 201.0))
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.Progress() as tell:
        for done in (1, 2, 1, 2):
            tell("updates", done, 2, line=True)
    lines = capsys.readouterr().err.splitlines()
    assert "2 min each" in lines[1] and "1/s" in lines[3]


@pytest.mark.parametrize("width", [40, 100])
def test_a_terminal_shows_one_bar(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(
        file=io.StringIO(), force_terminal=True, width=width, color_system=None, _environ={}
    )
    monkeypatch.setattr(progress, "err", lambda: screen)
    with progress.Progress() as tell:
        tell("cells", 3, 12, failed=1, now="expert " + "x" * 200)
        tell._bars.refresh()
        tell("arms", 1, 2)
    drawn = screen.file.getvalue()  # type: ignore[attr-defined]
    lines = re.split(r"[\r\n]", re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", drawn))
    assert any(line.startswith("cells") and "3 of 12" in line for line in lines)
    assert any(line.startswith("arms") for line in lines)
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (99, "99 s"), (600, "10 min"), (9000, "2 h 30 min")]
)
def test_times_are_read_by_people(seconds: float, text: str) -> None:
    assert progress.span(seconds) == text
    assert progress.pace(1 / 30) == "30 s each" and progress.pace(12_345) == "12,345/s"
