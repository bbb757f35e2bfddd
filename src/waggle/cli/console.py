"""What the terminal shows: tables, notes and progress bars; in a pipe plain text and no bars.

Results go to standard output, progress and notes to standard error, so that `--json` output and
tables can be piped while the progress stays visible.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text


def out(width: int | None = None) -> Console:
    """Return a console on the present standard output, of its own width if none is given."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True, emoji=False, width=width)


def err() -> Console:
    """Return a console on the present standard error."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Print a line beside the result."""
    err().print(text, markup=False)


def say(text: str) -> None:
    """Print one line of the result."""
    out().print(text, markup=False)


def dump(value: Mapping[str, Any]) -> None:
    """Print machine output: one JSON object."""
    sys.stdout.write(json.dumps(value, sort_keys=True, default=str) + "\n")


def bars(*last: ProgressColumn, quiet: bool = False) -> Progress:
    """Return progress bars with further columns at their end; only a terminal shows them."""
    screen = err()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *last)
    hidden = quiet or not screen.is_terminal
    return Progress(*columns, console=screen, transient=True, disable=hidden)


def table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]], right: int = 1
) -> None:
    """Print a table whose columns from number `right` on are numbers.

    Figures are never folded; in a table of texts, the widest column is folded to fit.
    """
    cells = [[figure(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=any(columns))
    numeric = right < len(columns)
    for index, name in enumerate(columns):
        fixed = numeric or index != widths.index(max(widths))
        justify: Literal["left", "right"] = "right" if index >= right else "left"
        grid.add_column(name, justify=justify, overflow="fold", no_wrap=fixed)
    for row in cells:
        grid.add_row(*map(Text, row))
    if title:
        say(title)
    width = sum(widths) + 3 * len(widths) if numeric else None
    out(width).print(grid, soft_wrap=False)


def figure(value: object) -> str:
    """Return a number with four significant digits, anything else as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1_000 <= abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else str(value)
