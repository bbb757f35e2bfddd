"""Progress: a line that is rewritten in a notebook, lines in a pipe, nothing when it is quiet."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from waggle.api import screen


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


def count(**given: Any) -> None:
    with screen.counting("episodes", 3, **given) as step:
        for word in ("a", "b", "c"):
            step(word)


def test_a_notebook_shows_one_line_once_it_takes_a_while(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    count()
    assert page.texts == []
    monkeypatch.setattr(screen, "PATIENCE", 0.0)
    count()
    assert page.texts == [
        "1 of 3 episodes  a", "2 of 3 episodes  b", "3 of 3 episodes  c", "3 of 3 episodes",
    ]  # fmt: skip
    count(quiet=True)
    assert len(page.texts) == 4


def test_a_pipe_shows_lines_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    count()
    count(quiet=True, lines=True)
    assert capsys.readouterr() == ("", "")
    count(lines=True)
    assert capsys.readouterr().err.splitlines()[-1] == "3 of 3 episodes (c)"
