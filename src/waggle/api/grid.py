"""Small tables as text and as HTML, for reprs on a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_UNSHOWN = {
    code: f"\\x{code:02x}"
    for code in (*range(0x20), *range(0x7F, 0xA0))
    if chr(code) not in "\t\n"
} | {code: f"\\u{code:04x}" for code in (0x061C, *range(0x200E, 0x2010), *range(0x202A, 0x202F),
                                         *range(0x2066, 0x206A))}  # fmt: skip
"""Control characters and bidirectional marks, mapped to visible escapes."""


def shown(text: str) -> str:
    """Return text with control characters escaped, since names in records are untrusted."""
    return text.translate(_UNSHOWN)


def figure(value: object) -> str:
    """Return a number with four significant digits, anything else as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1_000 <= abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else shown(str(value))


class Grid(NamedTuple):
    """Rows under named columns; columns from index `right` on are right-aligned."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    right: int = 1

    def text(self) -> str:
        """Return the table as lines of text."""
        cells = [list(self.columns), *self._cells()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = (
            "  ".join(
                cell.rjust(width) if index >= self.right else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        )
        return "\n".join(line for line in lines if line)

    def html(self, title: str = "") -> str:
        """Return the table as HTML, with a line of text above it."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(self._cell(i, cell) for i, cell in enumerate(row)) + "</tr>"
            for row in self._cells()
        )
        above = f"<p>{escape(title)}</p>" if title else ""
        shown = f"<thead><tr>{head}</tr></thead>" if any(self.columns) else ""
        return f"{above}<table>{shown}<tbody>{body}</tbody></table>"

    def _cells(self) -> list[list[str]]:
        return [[figure(cell) for cell in row] for row in self.rows]

    def _cell(self, index: int, text: str) -> str:
        side = "right" if index >= self.right else "left"
        return f"<td style='text-align:{side}'>{escape(text)}</td>"
