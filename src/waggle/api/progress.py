"""Progress of long work: amount done, rate, time left and number of failures.

A terminal shows one bar, a notebook one line that is rewritten, a pipe an occasional line. All of
it goes to standard error, separate from the result.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, Protocol

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from waggle.api.grid import shown
from waggle.api.screen import err, note

PATIENCE = 1.0
"""Seconds after which a notebook shows progress; shorter work leaves no line behind."""
QUIET = 60.0
"""Seconds after which a pipe gets a line even if less than a tenth was done."""


class Progress:
    """Shows the progress of one kind of work; another kind replaces the previous one."""

    def __init__(self, *, quiet: bool = False, lines: bool = True) -> None:
        """Set up the display.

        Args:
            quiet: show nothing.
            lines: print lines where there is neither a terminal nor a notebook.
        """
        screen = err()
        plain = not screen.is_terminal or screen.is_dumb_terminal
        text = TextColumn("{task.fields[status]}", markup=False)
        self._room = screen.width - min(24, screen.width // 4) - 4
        columns = (TextColumn("{task.description}"), BarColumn(min(24, screen.width // 4)), text)
        self._bars = Bars(*columns, console=screen, transient=True, disable=quiet or plain)
        self._job = self._bars.add_task("", total=None, status="", visible=False)
        self._note = _Line() if _in_notebook() and not quiet else None
        self._lines = lines and plain and not quiet and self._note is None
        self._what, self._latest = "", 0

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(
        self,
        what: str,
        done: int,
        total: int,
        *,
        failed: int = 0,
        now: str = "",
        left: float | None = None,
        line: bool = False,
    ) -> None:
        """Report progress.

        Args:
            what: name of the items that are counted.
            done: how many are done.
            total: how many there are.
            failed: how many of those done have failed.
            now: a short text about the latest item.
            left: remaining seconds, if the caller has a better estimate.
            line: print a line to a pipe for this call.
        """
        time = monotonic()
        if what != self._what or done < self._latest:  # another stage counts from the start
            self._what, self._began, self._first = what, time, done
            self._tenth, self._said = 10 * max(0, done - 1) // max(1, total), time
        self._latest = done
        rate = (done - self._first) / max(1e-6, time - self._began)
        if left is None and 0 < done < total:
            left = (total - done) / rate if rate else None
        facts = "  ".join(
            part
            for part in (
                pace(rate),
                f"{span(left)} left" if left else "",
                f"{failed:,} failed" if failed else "",
            )
            if part
        )
        status = shown("  ".join(filter(None, (f"{done:,} of {total:,}", facts, now))))
        status = status[: max(0, self._room - len(what))]
        self._bars.update(
            self._job, description=what, completed=done, total=total, visible=True, status=status
        )
        if self._note is not None and (self._note.shown or time - self._began > PATIENCE):
            self._note.show("  ".join(filter(None, (f"{done:,} of {total:,} {what}", facts, now))))
        tenth = 10 * done // max(1, total)
        if self._lines and (line or tenth > self._tenth or time - self._said > QUIET):
            self._tenth, self._said = tenth, time
            note(f"{done:,} of {total:,} {what}  {facts}" + (f"  ({now})" if now else ""))


def pace(rate: float) -> str:
    """Return a rate in items per second as readable text."""
    if rate <= 0:
        return ""
    if rate < 1:
        return f"{span(1 / rate)} each"
    return f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s"


def span(seconds: float) -> str:
    """Return a duration as readable text."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


class Step(Protocol):
    """A callable that counts one more item as done, with a short text about it."""

    def __call__(self, word: str, *, failed: bool = False) -> None:
        """Count one item."""
        ...


@contextmanager
def counting(what: str, total: int, *, quiet: bool = False, lines: bool = False) -> Iterator[Step]:
    """Yield a function that counts one more item as done; arguments are those of `Progress`."""
    done = lost = 0
    with Progress(quiet=quiet, lines=lines) as tell:

        def step(word: str, *, failed: bool = False) -> None:
            nonlocal done, lost
            done, lost = done + 1, lost + failed
            tell(what, done, total, failed=lost, now=word)

        yield step


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class _Line:
    """One line of a notebook that is rewritten in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    @property
    def shown(self) -> bool:
        return self._handle is not None

    def show(self, text: str) -> None:
        data = {"text/plain": text}
        if self._handle is None:
            display: Any = sys.modules["IPython"].display
            self._handle = display.display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
