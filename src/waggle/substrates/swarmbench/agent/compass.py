"""Offsets, compass points and windows in an agent's own frame.

Offsets are (rows down, columns right) relative to the agent. Pure functions; nothing here knows a
global coordinate or an id.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.substrates.swarmbench.sim.config import STEP, Cell

BLOCKED = frozenset("W*FNB")
"""Symbols of cells that agents do not walk into; the box is pushed, not entered."""
SELF, OUTSIDE = "Y", "*"

_OCTANTS = {
    (-1, 0): "N", (-1, 1): "NE", (0, 1): "E", (1, 1): "SE",
    (1, 0): "S", (1, -1): "SW", (0, -1): "W", (-1, -1): "NW",
}  # fmt: skip
MOVE_NAME = {step: name for name, step in STEP.items()}
"""Unit step -> the name of the move that makes it."""


def octant(offset: Cell) -> str:
    """Return the compass point of an offset; HERE within one cell.

    The sector borders run at slopes 1:2, so every octant is decided by integers alone.
    """
    i, j = offset
    if abs(i) <= 1 and abs(j) <= 1:
        return "HERE"
    di = 0 if 2 * abs(i) < abs(j) else (i > 0) - (i < 0)
    dj = 0 if 2 * abs(j) < abs(i) else (j > 0) - (j < 0)
    return _OCTANTS[di, dj]


def find(window: Sequence[str], symbols: str) -> list[Cell]:
    """Return the offsets of all cells of a window that show one of the given symbols."""
    half = len(window) // 2
    wanted = frozenset(symbols)
    return [
        (i - half, j - half)
        for i, row in enumerate(window)
        if not wanted.isdisjoint(row)
        for j, symbol in enumerate(row)
        if symbol in wanted
    ]


def at(window: Sequence[str], offset: Cell) -> str:
    """Return the symbol at an offset, or `?` outside the window."""
    half = len(window) // 2
    i, j = offset[0] + half, offset[1] + half
    return window[i][j] if 0 <= i < len(window) and 0 <= j < len(window) else "?"


def add(a: Cell, b: Cell) -> Cell:
    """Return the sum of two offsets."""
    return a[0] + b[0], a[1] + b[1]


def sub(a: Cell, b: Cell) -> Cell:
    """Return the difference of two offsets."""
    return a[0] - b[0], a[1] - b[1]


def sign(x: int) -> int:
    """Return -1, 0 or 1."""
    return (x > 0) - (x < 0)


def manhattan(a: Cell, b: Cell = (0, 0)) -> int:
    """Return the Manhattan distance of two offsets."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def chebyshev(a: Cell, b: Cell = (0, 0)) -> int:
    """Return the Chebyshev distance of two offsets."""
    return max(abs(a[0] - b[0]), abs(a[1] - b[1]))


def walls(window: Sequence[str], here: Cell) -> dict[str, int]:
    """Return the map's walls in sight: side -> row or column, in the frame of `here`.

    A wall cell belongs to a side if the cell before it, seen from inside, is not wall.
    """
    lines: dict[str, int] = {}
    for offset in find(window, "W"):
        for name, step in STEP.items():
            if at(window, sub(offset, step)) not in "W*?":
                lines[name] = here[0] + offset[0] if step[0] else here[1] + offset[1]
    return lines
