"""Output on the terminal: tables, notes and JSON.

Results go to standard output, progress and notes to standard error, so that `--json` output and
tables can be piped while the progress stays visible. Single lines are printed by `waggle.api`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from waggle.api.grid import figure, shown
from waggle.api.screen import note, out, say

__all__ = ["dump", "note", "out", "say", "table", "wrapped"]


def dump(value: Mapping[str, Any]) -> None:
    """Print one JSON object on one line."""
    sys.stdout.write(json.dumps(value, sort_keys=True, default=str) + "\n")


def wrapped(text: str) -> None:
    """Print prose, wrapped between words at the width of the screen."""
    out().print(shown(text), markup=False, soft_wrap=False)


def table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]], right: int = 1
) -> None:
    """Print a table whose columns from index `right` on are numbers.

    Numbers are never wrapped; in a table without numbers, the widest column is wrapped to fit.
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
