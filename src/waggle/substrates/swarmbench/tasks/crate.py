"""The plugged exit of Transport as one agent pieces it together from what it saw.

An exit is told by its corner and two directions: along the wall away from the corner, and inward
(spec section 4.5). Cells are then pairs (offset along the wall, line inward), the same for every
agent that knows the exit. The box can only go one step along towards the corner and then straight
out, so it stands in one of six stages. Pure functions; nothing here knows a global coordinate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import NamedTuple

from waggle.substrates.swarmbench.agent.compass import OUTSIDE, STEP, sub
from waggle.substrates.swarmbench.sim.config import Cell

SHUT, SHIFTED, OPEN = 0, 1, 5
"""Stages: as built, pushed along by one, and wholly outside; in between it is on its way out."""
GAP = 4
"""Cells of the wall that the exit takes, counted from the corner."""
LANES = (1, 2, 3)
"""Lines in which the box is pushed along, and offsets in which it is pushed out."""
POCKET = frozenset({(1, 1), (1, 2), (1, 3)})
"""The floor between box and corner before it is pushed along: whoever stands there stops it."""
_KNOWN = 6
"""Offsets and lines from the corner within which the plan of an exit says what stands where."""
_PLAN = [(offset, line) for offset in range(_KNOWN) for line in range(_KNOWN)]


class Exit(NamedTuple):
    """Where an exit is and how it lies, in the agent's own frame."""

    corner: Cell
    along: Cell
    inward: Cell

    def cell(self, place: Cell) -> Cell:
        """Return the cell at an (offset, line)."""
        (i, j), (a, b), (c, d) = self.corner, self.along, self.inward
        return i + place[0] * a + place[1] * c, j + place[0] * b + place[1] * d

    def place(self, cell: Cell) -> Cell:
        """Return the (offset, line) of a cell."""
        i, j = sub(cell, self.corner)
        return (
            i * self.along[0] + j * self.along[1],
            i * self.inward[0] + j * self.inward[1],
        )

    def move(self, step: Cell) -> str:
        """Name the move that changes (offset, line) by a unit step."""
        change = sub(self.cell(step), self.corner)
        return next(name for name, offset in STEP.items() if offset == change)


class Plug(NamedTuple):
    """An exit and the stage of the box in it."""

    exit: Exit
    stage: int


def _box(stage: int) -> frozenset[Cell]:
    aside, out = min(stage, 1), max(stage - 1, 0)
    bar = {(offset - aside, -out) for offset in range(4)}
    block = {(offset - aside, line - out) for offset in (2, 3, 4) for line in (1, 2, 3)}
    return frozenset(bar | block)


BOX: tuple[frozenset[Cell], ...] = tuple(_box(stage) for stage in range(OPEN + 1))
"""Cells (offset, line) of the box by stage; some lie outside the map."""


def expected(place: Cell, stage: int) -> str:
    """Return what stands at an (offset, line) near the corner; a floor cell may hold an agent."""
    offset, line = place
    if offset < 0 or line < 0:
        return OUTSIDE
    if place in BOX[stage]:
        return "B"
    return "W" if walled(place) else "."


def walled(place: Cell) -> bool:
    """Whether a cell near the corner is wall."""
    offset, line = place
    return (line == 0 and offset >= GAP) or (offset == 0 and line > 0)


def stage_now(exit: Exit, window: Sequence[str], here: Cell, last: int) -> int:
    """Return the stage of the box after a look: as before if it can be, else the next that can."""
    possible = stages(exit, window, here)
    if last in possible or not possible:
        return last
    return next((stage for stage in possible if stage > last), possible[0])


def stages(exit: Exit, window: Sequence[str], here: Cell) -> list[int]:
    """Return the stages of the box that agree with everything a window shows of the exit."""
    half = len(window) // 2
    possible = _ANY
    for i, row in enumerate(window):
        for j, symbol in enumerate(row):
            offset, line = exit.place((here[0] + i - half, here[1] + j - half))
            if offset < _KNOWN and line < _KNOWN:
                seen = symbol if symbol in "WB*" else "."
                possible &= _agreeing(max(offset, -1), max(line, -1), seen)
        if not possible:
            break
    return [stage for stage in range(OPEN + 1) if possible >> stage & 1]


_ANY = (1 << OPEN + 1) - 1


@cache
def _agreeing(offset: int, line: int, symbol: str) -> int:
    """Return the stages in which a place shows a symbol, one bit each; all outside is alike."""
    shown = (expected((offset, line), stage) for stage in range(OPEN + 1))
    return sum(1 << stage for stage, each in enumerate(shown) if each == symbol)


def exits(box: Cell) -> set[Exit]:
    """Return every exit whose box could have a given cell inside the map."""
    steps = list(STEP.values())
    frames = [(u, v) for u in steps for v in steps if u[0] * v[0] + u[1] * v[1] == 0]
    places = {place for stage in range(OPEN) for place in BOX[stage] if min(place) >= 0}
    return {
        Exit(sub(box, Exit((0, 0), u, v).cell(place)), u, v) for u, v in frames for place in places
    }


def disputed(exits: Sequence[Exit]) -> set[Cell]:
    """Return the cells of wall or floor on which some of several exits disagree."""
    plans = [{exit.cell(place): walled(place) for place in _PLAN} for exit in exits]
    return {
        cell
        for plan in plans
        for cell, wall in plan.items()
        if any(other.get(cell, wall) != wall for other in plans)
    }


def agrees(exit: Exit, known: Collection[Cell], solid: Collection[Cell]) -> bool:
    """Whether walls and floor seen before lie where an exit has them."""
    for place in _PLAN:
        cell = exit.cell(place)
        if cell in known and (cell in solid) != walled(place):
            return False
    return True
