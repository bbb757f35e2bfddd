"""The private proposal of Flocking: learn the walls, then close in as one contracting outline.

Nobody knows how many there are, so nobody knows how large the outline has to be. Every agent walks
clockwise along the walls until it has seen three of them, which give all agents one frame (maps are
square). Then it takes a place on an outline around the middle of the map that contracts with the
rounds, and so passes through the size at which everyone has a place. Where an agent has met many
others two walls are enough: a crowd needs an outline so large that its far sides do not matter.
Pure functions of window and private memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from waggle.substrates.swarmbench.agent.compass import (
    MOVE_NAMES,
    STEP,
    add,
    at,
    found,
    sub,
    taxi,
)
from waggle.substrates.swarmbench.agent.memory import Memory
from waggle.substrates.swarmbench.sim.config import Cell

INSET = 7
"""Cells by which the first outline is smaller than the map, both sides together."""
GATHERED = 67
"""Rounds for which the first outline stands; agents gather on it and spread."""
ROUNDS_PER_STEP = (5, 2)
"""Rounds and steps of contraction after that; a step takes one cell off the side."""
SURVEY, CROWDED_SURVEY = 66, 15
"""Rounds after which two walls must do, and the same where many agents were met."""
CROWD = (9, 5)
"""Agents in sight and rounds: a higher mean is a crowd."""
PATROL = 2
"""Distance from the walls at which they are followed."""
_FAR = 1000
"""Where a wall is taken to be that was not seen yet."""
_SIGHT = 4
"""Cells of the outline that can be in sight to one side."""


class Outline(NamedTuple):
    """Rows and columns of the four sides, in the agent's own frame."""

    top: int
    left: int
    bottom: int
    right: int

    def has(self, cell: Cell) -> bool:
        """Whether a cell belongs to the outline."""
        i, j = cell
        within = self.top <= i <= self.bottom and self.left <= j <= self.right
        return within and (i in (self.top, self.bottom) or j in (self.left, self.right))

    def clockwise(self, cell: Cell) -> Cell:
        """Return the step that leads on from a cell of the outline."""
        i, j = cell
        if i == self.top and j < self.right:
            return (0, 1)
        if j == self.right and i < self.bottom:
            return (1, 0)
        if i == self.bottom and j > self.left:
            return (0, -1)
        return (-1, 0)

    def counter(self, cell: Cell) -> Cell:
        """Return the step that leads back from a cell of the outline."""
        i, j = cell
        if i == self.top and j > self.left:
            return (0, -1)
        if j == self.left and i < self.bottom:
            return (1, 0)
        if i == self.bottom and j < self.right:
            return (0, 1)
        return (-1, 0)


def complete(walls: Mapping[str, int]) -> dict[str, int]:
    """Add the fourth wall of a square map once three are known."""
    full = dict(walls)
    for near, far, first, second in (
        ("UP", "DOWN", "LEFT", "RIGHT"),
        ("LEFT", "RIGHT", "UP", "DOWN"),
    ):
        if near in full and far in full:
            side = full[far] - full[near]
            if first in full:
                full.setdefault(second, full[first] + side)
            elif second in full:
                full.setdefault(first, full[second] - side)
    return full


def outline(walls: Mapping[str, int], near: int, far: int) -> Outline:
    """Return the outline inset from the upper and left walls by one number, the others by another.

    Sides whose wall is not known are far away.
    """
    return Outline(
        walls.get("UP", -_FAR) + near,
        walls.get("LEFT", -_FAR) + near,
        walls.get("DOWN", _FAR) - far,
        walls.get("RIGHT", _FAR) - far,
    )


def inset(clock: int) -> tuple[int, int]:
    """Return by how much the outline is inset in a round; see `outline`."""
    rounds, steps = ROUNDS_PER_STEP
    both = INSET + max(0, clock - GATHERED) * steps // rounds
    return (both + 1) // 2, both // 2


def propose(
    walls: Mapping[str, int],
    met: int,
    memory: Memory,
    window: Sequence[str],
    first: str,
    draw: int,
) -> str:
    """Return the private move of one of the flock.

    Args:
        walls: side -> row or column of the wall there, as far as known, in the own frame.
        met: agents in sight, summed over the rounds lived.
        memory: the private memory.
        window: what is in sight.
        first: the way to look for a first wall.
        draw: 64 bits that break ties.
    """
    walls = complete(walls)
    here, clock = memory.here, memory.clock
    survey = CROWDED_SURVEY if met * CROWD[1] > CROWD[0] * (clock + 1) else SURVEY
    if len(walls) < 4 and (clock < survey or len(walls) < 2):
        if not walls:
            return _pass(window, first, draw)
        return _around(outline(walls, PATROL, PATROL), here, window, draw)
    shape = outline(walls, *inset(clock))
    if shape.has(here):
        return _hold(shape, here, window, drifting=clock < GATHERED)
    return _join(shape, here, window, draw)


def _hold(shape: Outline, here: Cell, window: Sequence[str], drifting: bool) -> str:
    """Keep the place, but even out the gaps to both sides.

    Before the outline contracts, the first of a file moves on clockwise, so that a gap travels
    towards those who walk around the outline in search of one.
    """
    ahead, behind = (_free(shape, here, window, forward) for forward in (True, False))
    if ahead > behind + 1 or (drifting and ahead > behind == 0):
        return _name(shape.clockwise(here))
    return _name(shape.counter(here)) if behind > ahead + 1 else "STAY"


def _free(shape: Outline, here: Cell, window: Sequence[str], forward: bool) -> int:
    """Count the free cells of the outline in sight before the next agent, to one side."""
    cell = here
    for count in range(_SIGHT):
        cell = add(cell, shape.clockwise(cell) if forward else shape.counter(cell))
        if at(window, sub(cell, here)) != ".":
            return count
    return _SIGHT


def _join(shape: Outline, here: Cell, window: Sequence[str], draw: int) -> str:
    """Take the nearest gap in sight that nobody is nearer to, else walk on around the outline."""
    others = [o for o in found(window, "A") if not shape.has(add(here, o))]
    gaps = [o for o in found(window, ".") if shape.has(add(here, o))]
    mine = [gap for gap in gaps if all(taxi(o, gap) >= taxi(gap) for o in others)]
    if not mine:
        return _around(shape, here, window, draw)
    target = min(mine, key=lambda gap: (taxi(gap), gap))
    nearer = [
        name
        for name in MOVE_NAMES
        if at(window, STEP[name]) == "." and taxi(target, STEP[name]) < taxi(target)
    ]
    return nearer[draw % len(nearer)] if nearer else "STAY"


def _around(shape: Outline, here: Cell, window: Sequence[str], draw: int) -> str:
    """Step clockwise around an outline, on it or outside; from within, to its nearest side."""
    i, j = here
    top, left, bottom, right = shape
    if i <= top and j < right + (i < top):
        name = "RIGHT"
    elif j >= right and i < bottom + (j > right):
        name = "DOWN"
    elif i >= bottom and j > left - (i > bottom):
        name = "LEFT"
    elif j <= left:
        name = "UP"
    else:
        sides = (
            (i - top, "UP"),
            (bottom - i, "DOWN"),
            (j - left, "LEFT"),
            (right - j, "RIGHT"),
        )
        name = min(sides)[1]
    return _pass(window, name, draw)


def _pass(window: Sequence[str], name: str, draw: int) -> str:
    """Step on, behind whoever walks ahead; now and then go around somebody in the way."""
    i, j = STEP[name]
    if at(window, (i, j)) != "." and draw >> 8 & 3 == 0:
        beside = [n for n in MOVE_NAMES if STEP[n] in ((j, i), (-j, -i))]
        free = [n for n in beside if at(window, STEP[n]) == "."]
        if free:
            return free[draw % len(free)]
    return name


def _name(step: Cell) -> str:
    return next(name for name, offset in STEP.items() if offset == step)
