"""What the terminal shows: tables and notes, on a terminal in colour, in a pipe as plain text.

Results go to standard output, progress and notes to standard error, so that `--json` output and
tables can be piped while the progress stays visible.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def out() -> Console:
    """Return a console on the present standard output."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True)


def err() -> Console:
    """Return a console on the present standard error."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Say something beside the result."""
    err().print(text, markup=False)


def say(text: str) -> None:
    """Print one line of the result."""
    out().print(text, markup=False)


def dump(value: Mapping[str, Any]) -> None:
    """Print machine output: one JSON object."""
    sys.stdout.write(json.dumps(value, sort_keys=True, default=str) + "\n")


def table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]], right: int = 1
) -> None:
    """Print a table whose columns from number `right` on are numbers."""
    grid = Table(
        title=title,
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 3, 0, 0),
        show_header=any(columns),
    )
    for index, name in enumerate(columns):
        grid.add_column(name, justify="right" if index >= right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(figure(cell)) for cell in row))
    console = out()
    console.print(grid, soft_wrap=False)


def figure(value: object) -> str:
    """Return a number with four significant digits, anything else as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else str(value)
