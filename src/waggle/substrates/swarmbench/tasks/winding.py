"""The winding path of Foraging: learning the walls and walking between them.

Inner walls are parallel and each is open at one end, at alternating ends, so the path leads through
every lane from gap to gap. Agents keep close to the wall they intend to pass, see its open end in
time and turn closely around it; agents in opposite directions keep to opposite walls. Everything
is read from the agent's own windows and stored in its own frame; sizes, spacing and the place on
the map are unknown.
A cell has a coordinate across the walls and one along them: with axis 0 the walls run along rows,
so `cell[0]` is across and `cell[1]` along.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from waggle.substrates.swarmbench.agent.compass import MOVE_NAME, add, manhattan
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.sim.config import STEP, Cell

SPACING = 4
"""Inner walls stand on every fourth line."""
_IN_SIGHT = 3
"""Distance from the map's edge at which a site in its corner is in sight."""
_SAME_LANE = 6
"""Maximum distance of a site from the line that closes its lane."""
_OPEN = "[.AaY]"
_GAP_UP = re.compile(f"WW{_OPEN}")
_GAP_DOWN = re.compile(f"{_OPEN}WW")
_PIERCED = re.compile(f"{_OPEN}W{_OPEN}")


class Gap(NamedTuple):
    """The open end of a line of wall: its first open cell, and the side on which it continues."""

    edge: int
    side: int

    def spans(self, along: int) -> bool:
        """Return whether an agent can pass the line at that coordinate."""
        return (along - self.edge) * self.side >= 0


class _Strip(NamedTuple):
    """The wall features of one row or column of a window."""

    is_line: bool
    gap: Gap | None
    pierced: int | None
    """Index of wall between open cells: a wall across this strip, not the map's edge."""


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
    """One agent's knowledge of the lanes."""

    __slots__ = ("_before", "axis", "border", "crossed", "gaps", "inner", "lines", "ways")

    def __init__(self, draw: int) -> None:
        self.axis: int | None = None
        """0: inner walls run along rows; 1: along columns; None: no inner wall seen yet."""
        self.lines: tuple[set[int], set[int]] = (set(), set())
        """By axis: the lines of wall, the map's edge included."""
        self.inner: tuple[set[int], set[int]] = (set(), set())
        """By axis: the lines seen from both sides, which cannot be the map's edge."""
        self.gaps: tuple[dict[int, Gap], dict[int, Gap]] = ({}, {})
        """By axis: line -> its open end."""
        self.border: dict[tuple[int, int], int] = {}
        """(axis, side) -> the line that is the map's edge there."""
        self.crossed: int | None = None
        """The side towards which the last line was passed."""
        self.ways = [1 - 2 * (draw & 1), 1 - 2 * (draw >> 1 & 1)]
        """By axis: the drawn direction, +1 or -1, used if there is no evidence for either."""
        self._before: int | None = None

    def note(self, window: Sequence[str], here: Cell) -> None:
        """Update the lanes from a window and from the step that led here."""
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
        """Record a line that was passed or entered, and from which side."""
        if self.axis is None:
            return
        across = here[self.axis]
        before = self._before
        if before is not None and before != across:
            low, high = min(before, across), max(before, across)
            # Entering a line counts, leaving it again on either side does not.
            if any(
                low < line <= high if across > before else low <= line < high
                for line in self.lines[self.axis]
            ):
                self.crossed = 1 if across > before else -1
        self._before = across

    def _turn_at_end(self, here: Cell) -> None:
        """Reverse the drawn direction at the map's edge, or at the end of the lanes once known."""
        for axis in (0, 1):
            end = self.border.get((axis, self.ways[axis]))
            if self.axis == 1 - axis:
                end = self.end(here[axis], self.ways[axis])
            if end is not None and abs(end - here[axis]) <= 2:
                self.ways[axis] *= -1

    @property
    def along(self) -> int:
        """The axis of the walls; it must be known."""
        assert self.axis is not None
        return self.axis

    def between(self, a: int, b: int) -> bool:
        """Return whether a known line of inner wall or edge runs between two places across."""
        return any(min(a, b) < line < max(a, b) for line in self.lines[self.along])

    def line(self, across: int, side: int) -> int | None:
        """Return the nearest known line on one side of a place, or None."""
        return _nearest(self.lines[self.along], across, side)

    def gap(self, line: int | None) -> Gap | None:
        """Return the open end of a line, or None if it was not seen."""
        return None if line is None else self.gaps[self.along].get(line)

    def edge_side(self, across: int) -> int | None:
        """Return the side on which the lane at a place is the last one, or None.

        Either the map's edge was seen there, or the lane is wider than a lane between inner walls.
        """
        if across in self.lines[self.along]:
            return None
        lines = {side: self.line(across, side) for side in (1, -1)}
        for side, line in lines.items():
            if line is not None and self.border.get((self.along, side)) == line:
                return side
        above, below = lines[1], lines[-1]
        if above is not None and below is not None and above - below > SPACING:
            outer = [side for side, line in lines.items() if line not in self.inner[self.along]]
            return outer[0] if len(outer) == 1 else None
        return None

    @property
    def way(self) -> int:
        """The drawn direction along the lanes."""
        return self.ways[1 - self.along]

    def end(self, along: int, side: int) -> int | None:
        """Return the line at which the lanes end on a side, or None if it was not seen."""
        return _nearest(self.lines[1 - self.along], along, side)

    def place(self, cell: Cell) -> Cell:
        """Convert (row, column) to (across, along), or back."""
        return cell if self.axis == 0 else (cell[1], cell[0])


def _nearest(lines: set[int], place: int, side: int) -> int | None:
    beyond = [line for line in lines if (line - place) * side > 0]
    return min(beyond, key=lambda line: abs(line - place), default=None)


def away_from(lanes: Lanes, here: Cell, site: Site) -> int | None:
    """Return the side across the walls that leads away from a site at one end of the path."""
    across, there = lanes.place(here)[0], lanes.place(site.cell)[0]
    if lanes.between(across, there) or across in lanes.lines[lanes.along]:
        return 1 if across > there else -1
    edge = lanes.edge_side(across)
    if edge is not None:
        return -edge
    for side in (1, -1):
        if lanes.gap(lanes.line(across, side)) is not None:
            return side
    return lanes.crossed if abs(across - there) <= 2 else (1 if across > there else -1)


def lies_at_open_end(lanes: Lanes, sites: Iterable[Site]) -> bool | None:
    """Return whether the sites lie at the open end of their lane, which is the same for both."""
    gaps = lanes.gaps[lanes.along]
    for site in sites:
        across, along = lanes.place(site.cell)
        line = min(gaps, key=lambda line: abs(line - across), default=None)
        if line is not None and abs(line - across) <= _SAME_LANE:
            return gaps[line].spans(along)
    return None


def find_walls(memory: Memory, lanes: Lanes, away: Site | None) -> list[Cell]:
    """Return the steps that search for the walls: up to a line in sight, else diagonally."""
    ways = list(lanes.ways)
    for axis in (0, 1):
        here = memory.here[axis]
        for side in (1, -1):
            if here + 2 * side in lanes.lines[axis] and (axis, side) not in lanes.border:
                return [(side, 0) if axis == 0 else (0, side)]
        if away is not None and away.cell[axis] != here:
            ways[axis] = 1 if here > away.cell[axis] else -1
    steps = [(ways[0], 0), (0, ways[1])]
    return steps if memory.clock % 2 else steps[::-1]


def onward(
    memory: Memory, lanes: Lanes, side: int | None, sites: list[Site], yields: bool
) -> list[Cell]:
    """Return the steps that lead on along the path, the preferred one first.

    Args:
        memory: the private map.
        lanes: what is known of the lanes; the axis must be known.
        side: the side across the walls to head for; None: wherever the lane leads.
        sites: the known sites.
        yields: whether to turn widely around the end of a wall and leave the inside to others.
    """
    if side is None:
        steps = _drift(memory, lanes, yields)
    else:
        steps = _make_for(memory, lanes, side, sites, yields)
    return [lanes.place(step) for step in steps]


def _drift(memory: Memory, lanes: Lanes, yields: bool) -> list[Cell]:
    """Walk along the middle of the lane in the drawn direction, and leave it where it opens.

    One of the two sites is in a corner of the last lane, so the agent searches that lane first.
    """
    across, along = lanes.place(memory.here)
    edge = lanes.edge_side(across)
    if edge is not None:
        mouth = lanes.gap(lanes.line(across, -edge))
        return _search(memory, lanes, edge, lanes.way if mouth is None else -mouth.side)
    sides = {side: lanes.line(across, side) for side in (1, -1)}
    for side, line in sides.items():
        gap = lanes.gap(line)
        if gap is not None and line is not None and (gap.side == lanes.way or gap.spans(along)):
            return _pass(line, gap, side, across, along, yields)
    unknown = [side for side, line in sides.items() if line is None]
    if len(unknown) == 1:
        return [(unknown[0], 0), (0, lanes.way)]
    return [(0, lanes.way)]


def _search(memory: Memory, lanes: Lanes, edge: int, first: int) -> list[Cell]:
    """Look into the corners of the last lane, one after the other."""
    across, along = lanes.place(memory.here)
    line = lanes.line(across, edge)
    assert line is not None
    end = lanes.end(along, first)
    if end is not None and lanes.place((line - edge, end - first)) in memory.known:
        first = -first
    nearer = [(edge, 0)] if abs(line - across) > _IN_SIGHT else []
    return [*nearer, (0, first)]


def _pass(line: int, gap: Gap, side: int, across: int, along: int, yields: bool) -> list[Cell]:
    """Go through a known gap: close to the line, then around its end."""
    if yields:
        gap = Gap(gap.edge + gap.side, gap.side)
    if gap.spans(along):
        inner = [(0, -gap.side)] if along != gap.edge else []
        return [(side, 0), *inner]
    return [*_towards(line, side, across), (0, gap.side)]


def _towards(line: int, side: int, across: int) -> list[Cell]:
    """Return the step towards a line of wall, unless the agent walks along it already."""
    return [(side, 0)] if abs(line - across) > 1 else []


def _make_for(
    memory: Memory, lanes: Lanes, side: int, sites: list[Site], yields: bool
) -> list[Cell]:
    across, along = lanes.place(memory.here)
    line = lanes.line(across, side)
    if line is None:
        return [(side, 0)]
    gap = lanes.gap(line)
    if gap is not None:
        return _pass(line, gap, side, across, along, yields)
    if lanes.edge_side(across) == side:
        mouth = lanes.gap(lanes.line(across, -side))
        first = lanes.way if mouth is None else mouth.side
        if mouth is not None and lies_at_open_end(lanes, sites) is False:
            first = -first
        return _search(memory, lanes, side, first)
    return [*_towards(line, side, across), (0, _guess(lanes, side, across, along, sites))]


def _guess(lanes: Lanes, side: int, across: int, along: int, sites: list[Site]) -> int:
    """Guess the open end of the line on a side: opposite to the last one, away from a corner."""
    behind = lanes.gap(lanes.line(across, -side))
    if behind is not None:
        return -behind.side
    for site in sites:
        there, corner = lanes.place(site.cell)
        if not lanes.between(across, there):
            turn = 1 if along > corner else -1
            return turn if lanes.end(along, turn) is None else -turn
    return lanes.way


def file_in(memory: Memory, lanes: Lanes, site: Site) -> list[Cell]:
    """Return the steps to a site in the last lane that keep to the map's edge."""
    across, along = lanes.place(memory.here)
    edge = lanes.edge_side(across)
    there = lanes.place(site.cell)[1]
    if edge is None or along == there:
        return []
    line = lanes.line(across, edge)
    nearer = [] if line is None else _towards(line, edge, across)
    return [lanes.place(step) for step in (*nearer, (0, 1 if there > along else -1))]


def give_way(memory: Memory, site: Site, crowd: frozenset[Cell], draw: int) -> str:
    """Step back from a site if there is room behind, else stay, so that others can push."""
    behind = [
        (draw >> (8 * k) & 0xFF, name)
        for k, (name, step) in enumerate(STEP.items())
        if manhattan(add(memory.here, step), site.cell) > manhattan(memory.here, site.cell)
        and step not in crowd
        and add(memory.here, step) not in memory.solid
    ]
    return min(behind)[1] if behind else "STAY"


def take(memory: Memory, steps: list[Cell], crowd: frozenset[Cell], draw: int) -> str | None:
    """Take the first free step; else push on behind others, or if blocked step aside by draw."""
    steps = [step for step in steps if add(memory.here, step) not in memory.solid]
    if not steps:
        return None
    free = [step for step in steps if step not in crowd]
    if free:
        return MOVE_NAME[free[0]]
    if memory.blocked and draw & 1:
        i, j = steps[0]
        turns = [(j, -i), (-j, i)][:: 1 - (draw & 2)]
        for step in turns:
            if step not in crowd and add(memory.here, step) not in memory.solid:
                return MOVE_NAME[step]
    return MOVE_NAME[steps[0]]
