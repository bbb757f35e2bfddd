"""What a forager makes out of the walls: lines of wall, where they are open, where the map ends.

Inner walls run parallel and are open at one end each, at alternating ends, so the way winds through
lanes. Everything here is read off own windows and kept in the agent's own frame; sizes, spacing and
the place on the map are unknown. Coordinates of a cell are its place across the walls and along
them: with axis 0 the walls run along rows, so `cell[0]` is across and `cell[1]` along.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from waggle.substrates.swarmbench.sim.config import Cell

SPACING = 4
"""Inner walls stand on every fourth line."""
_OPEN = "[.AaY]"
_GAP_UP = re.compile(f"WW{_OPEN}")
_GAP_DOWN = re.compile(f"{_OPEN}WW")
_PIERCED = re.compile(f"{_OPEN}W{_OPEN}")


class Gap(NamedTuple):
    """Where a line of wall ends: its first open cell, and on which side of it more are open."""

    edge: int
    side: int

    def spans(self, along: int) -> bool:
        """Whether one can pass the line there."""
        return (along - self.edge) * self.side >= 0


class _Strip(NamedTuple):
    """What one row or column of a window shows."""

    is_line: bool
    gap: Gap | None
    pierced: int | None
    """Where there is wall between open cells: a wall across this strip, not the map's edge."""


@lru_cache(maxsize=1 << 14)
def _read(strip: str) -> _Strip:
    up, down = _GAP_UP.search(strip), _GAP_DOWN.search(strip)
    gap = None
    if up:
        gap = Gap(up.end() - 1, 1)
    elif down:
        gap = Gap(down.start(), -1)
    pierced = _PIERCED.search(strip)
    return _Strip("WW" in strip, gap, pierced.start() + 1 if pierced else None)


class Lanes:
    """The lanes as one agent knows them."""

    __slots__ = ("_before", "axis", "border", "crossed", "gaps", "inner", "lines", "lots")

    def __init__(self, draw: int) -> None:
        self.axis: int | None = None
        """0: inner walls run along rows; 1: along columns; None: no inner wall seen yet."""
        self.lines: tuple[set[int], set[int]] = (set(), set())
        """By axis: where lines of wall run, the map's edge included."""
        self.inner: tuple[set[int], set[int]] = (set(), set())
        """By axis: lines seen from both sides, so not the map's edge."""
        self.gaps: tuple[dict[int, Gap], dict[int, Gap]] = ({}, {})
        """By axis: line -> where it is open."""
        self.border: dict[tuple[int, int], int] = {}
        """(axis, side) -> the line that is the map's edge there."""
        self.crossed: int | None = None
        """Towards which side the last line was passed."""
        self.lots = [1 - 2 * (draw & 1), 1 - 2 * (draw >> 1 & 1)]
        """By axis: the way to go, +1 or -1, where nothing speaks for either."""
        self._before: int | None = None

    def note(self, window: Sequence[str], here: Cell) -> None:
        """Take a window into account, and the step that led here."""
        strips = (window, ["".join(column) for column in zip(*window, strict=True)])
        half = len(window) // 2
        for axis in (0, 1):
            self._note_strips(axis, [_read(strip) for strip in strips[axis]], here, half)
            middle = strips[1 - axis][half]
            if half >= 2:
                for side in (-1, 1):
                    if middle[half + 2 * side] == "*":
                        self.border[axis, side] = here[axis] + side
        self._note_crossing(here)
        self._turn_at_end(here)

    def _turn_at_end(self, here: Cell) -> None:
        """Turn the lot at the map's edge, or at the end of the lanes once they are known."""
        for axis in (0, 1):
            end = self.border.get((axis, self.lots[axis]))
            if self.axis == 1 - axis:
                end = self.end(here[axis], self.lots[axis])
            if end is not None and abs(end - here[axis]) <= 2:
                self.lots[axis] *= -1

    def _note_strips(self, axis: int, strips: list[_Strip], here: Cell, half: int) -> None:
        across, along = here[axis] - half, here[1 - axis] - half
        count = 0
        for k, strip in enumerate(strips):
            if strip.is_line:
                count += 1
                self.lines[axis].add(across + k)
            if strip.gap is not None:
                self.gaps[axis][across + k] = Gap(along + strip.gap.edge, strip.gap.side)
                self.axis = axis
            if strip.pierced is not None:
                self.axis = 1 - axis
                self.inner[1 - axis].add(along + strip.pierced)
        if count > 1:
            # The edges of a map are farther apart than a window is wide.
            self.axis = axis

    def _note_crossing(self, here: Cell) -> None:
        """Take note of a line one has passed or stands in, and of the side it was entered from."""
        if self.axis is None:
            return
        across = here[self.axis]
        before = self._before
        if before is not None and before != across:
            low, high = min(before, across), max(before, across)
            # To enter a line counts, to leave it again on either side does not.
            if any(
                low < line <= high if across > before else low <= line < high
                for line in self.lines[self.axis]
            ):
                self.crossed = 1 if across > before else -1
        self._before = across

    def between(self, a: int, b: int) -> bool:
        """Whether a known line of inner wall or edge runs between two places across."""
        assert self.axis is not None
        low, high = min(a, b), max(a, b)
        return any(low < line < high for line in self.lines[self.axis])

    def line(self, across: int, side: int) -> int | None:
        """Return the nearest known line beside a place, or None."""
        assert self.axis is not None
        return _nearest(self.lines[self.axis], across, side)

    def gap(self, line: int | None) -> Gap | None:
        """Return where a line is open, if that was seen."""
        assert self.axis is not None
        return None if line is None else self.gaps[self.axis].get(line)

    def edge_side(self, across: int) -> int | None:
        """Return the side on which the lane at a place is the last one, or None.

        The map's edge is seen there, or the lane is wider than lanes between inner walls are.
        """
        assert self.axis is not None
        if across in self.lines[self.axis]:
            return None
        lines = {side: self.line(across, side) for side in (1, -1)}
        for side, line in lines.items():
            if line is not None and self.border.get((self.axis, side)) == line:
                return side
        above, below = lines[1], lines[-1]
        if above is not None and below is not None and above - below > SPACING:
            outer = [side for side, line in lines.items() if line not in self.inner[self.axis]]
            return outer[0] if len(outer) == 1 else None
        return None

    @property
    def lot(self) -> int:
        """The way along the lanes where nothing speaks for either."""
        assert self.axis is not None
        return self.lots[1 - self.axis]

    def end(self, along: int, side: int) -> int | None:
        """Return where the lanes end on a side, or None if that was not seen."""
        assert self.axis is not None
        return _nearest(self.lines[1 - self.axis], along, side)


def _nearest(lines: set[int], place: int, side: int) -> int | None:
    beyond = [line for line in lines if (line - place) * side > 0]
    return min(beyond, key=lambda line: abs(line - place), default=None)
