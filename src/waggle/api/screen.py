"""What a person sees while a swarm plays: lines, progress bars, and every round if asked for.

Results go to standard output, progress and notes to standard error. A terminal shows a bar, a
notebook one line that is rewritten, a pipe plain lines and no bar.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from waggle.api.grid import figure, shown
from waggle.core.protocols import World
from waggle.core.record import RoundRecord

SHOWN_CLAIMS = 3
"""Claims named in one line of a watched round."""
PATIENCE = 1.0
"""Seconds after which a notebook shows progress; what is quicker leaves no line behind."""


def out(width: int | None = None) -> Console:
    """Return a console on the present standard output, of its own width if none is given."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True, emoji=False, width=width)


def err() -> Console:
    """Return a console on the present standard error."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Print a line beside the result."""
    err().print(shown(text), markup=False)


def say(text: str) -> None:
    """Print one line of the result."""
    out().print(shown(text), markup=False)


def write(text: str) -> None:
    """Print a text of many lines as it is, whatever the width of the screen."""
    sys.stdout.write(shown(text) + "\n")


def bars(*last: ProgressColumn, quiet: bool = False) -> Progress:
    """Return progress bars with further columns at their end; only a terminal shows them."""
    screen = err()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *last)
    hidden = quiet or not screen.is_terminal
    return Progress(*columns, console=screen, transient=True, disable=hidden)


@contextmanager
def counting(
    what: str, total: int, *, quiet: bool = False, lines: bool = False
) -> Iterator[Callable[[str], None]]:
    """Yield a function that counts one thing more as done, with a word on it.

    Args:
        what: the things that are counted.
        total: how many there are.
        quiet: show nothing.
        lines: where there is neither a terminal nor a notebook, print a line for every tenth.
    """
    done = 0
    began = monotonic()
    line = _Line() if _in_notebook() and not quiet else None
    with bars(TimeRemainingColumn(), quiet=quiet) as bar:
        job = bar.add_task(what, total=total)

        def step(word: str) -> None:
            nonlocal done
            done += 1
            bar.update(job, advance=1, description=word)
            if line is not None and (line.shown or monotonic() - began > PATIENCE):
                line.show(f"{done:,} of {total:,} {what}  {word}")
            elif (
                lines
                and bar.disable
                and not quiet
                and 10 * done // total > 10 * (done - 1) // total
            ):
                note(f"{done:,} of {total:,} {what} ({word})")

        yield step
    if line is not None and line.shown:
        line.show(f"{done:,} of {total:,} {what}")


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
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


class Rounds:
    """A watcher that prints each round as one line, and draws the world where it can be drawn.

    It shows the commitments of the whole swarm by the substrate's own claims, which no node sees.
    """

    def __init__(self, tell: Callable[[str], None] = note) -> None:
        self._tell = tell
        self._held: dict[int, str | None] = {}

    def __call__(self, entry: RoundRecord, world: World) -> None:
        """Print one round."""
        if entry.shock is not None:
            self._tell(f"      -- late counterevidence: {entry.shock.note or 'injected'} --")
        self._held.update((u.node, u.claim) for u in entry.updates)
        picture = world.render()
        if "\n" in picture:
            self._tell(picture)
            picture = ""
        self._tell(self._line(entry, world.n, picture))

    def _line(self, entry: RoundRecord, n: int, picture: str) -> str:
        claims = Counter(claim for claim in self._held.values() if claim is not None)
        held = sum(claims.values())
        top = ", ".join(f"{claim} {count}" for claim, count in claims.most_common(SHOWN_CLAIMS))
        reopened = sum(u.reopened is not None for u in entry.updates)
        again = f"  reopened {reopened}" if reopened else ""
        parts = (
            f"{entry.round:4d}",
            picture,
            f"{score_of(entry):14} committed {held}/{n}",
            f"messages {entry.delivered}{again}",
            f"({top})" if top else "",
        )
        return "  ".join(part for part in parts if part)


def score_of(entry: RoundRecord) -> str:
    """Return the score after a round as a person reads it."""
    return f"score {figure(entry.score.get('score'))}"
