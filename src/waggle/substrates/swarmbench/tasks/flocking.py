"""Flocking: learn the walls, then close in as one contracting outline.

Agents do not know how many they are, nor how large the outline has to be. Every agent walks
clockwise along the walls until it has seen three of them, which give all agents one frame (maps are
square). Then it takes a place on an outline around the middle of the map that contracts over the
rounds, and so passes through the size at which every agent has a place. For an agent that has met
many others two walls are enough: a crowd needs an outline so large that its far sides do not
matter. The landmark that agents report is the middle of the map, known once the walls are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from waggle.substrates.swarmbench.agent.compass import (
    MOVE_NAME,
    add,
    at,
    find,
    manhattan,
    sub,
    walls,
)
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import MOVE_NAMES, STEP, Cell
from waggle.substrates.swarmbench.tasks.base import Landmark, Plan

Walls = Mapping[str, int]
"""Side -> row or column of the map's wall there."""
INSET = 7
"""Cells by which the first outline is smaller than the map, both sides together."""
GATHERED = 67
"""Rounds for which the first outline is kept; agents gather on it and spread out."""
ROUNDS_PER_STEP = (5, 2)
"""The contraction after that: (rounds, steps in them); a step shortens the side by one cell."""
SURVEY, CROWDED_SURVEY = 66, 15
"""Rounds after which two walls must suffice: in general, and after meeting many agents."""
CROWD = (9, 5)
"""(Agents in sight, rounds): an agent that has met more per round is in a crowd."""
PATROL = 2
"""Distance from the walls at which agents follow them."""
_FAR = 1000
"""Assumed row or column, up to its sign, of a wall that was not seen yet."""
_SIGHT = 4
"""Maximum number of cells of the outline in sight to one side."""


class FlockingBehaviour(Landmark):
    """One landmark: the middle of the map."""

    goal = "Together form the outline of a square, one agent per cell of the outline."
    kind = "middle"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.walls: list[dict[str, int]] = [{} for _ in scene.keys]
        """The walls that each node has seen, in its own frame."""
        self.met = [0] * len(scene.keys)
        """Number of agents in each node's sight, summed over its rounds."""

    def look(self, node: int) -> Plan:
        """Record walls and the number of agents in sight; plan the move."""
        window, memory = self.scene.windows[node], self.scene.memories[node]
        self.walls[node].update(walls(window, memory.here))
        self.met[node] += len(find(window, "A"))
        return Plan(self._move(node, self.walls[node]), False)

    def _move(self, node: int, known: Walls) -> str:
        """Return the node's move, given the walls that it knows."""
        scene, lines = self.scene, complete(known)
        memory, window, draw = scene.memories[node], scene.windows[node], scene.draw(node)
        here, clock = memory.here, memory.clock
        crowded = self.met[node] * CROWD[1] > CROWD[0] * (clock + 1)
        survey = CROWDED_SURVEY if crowded else SURVEY
        if len(lines) < 4 and (clock < survey or len(lines) < 2):
            if not lines:
                first = MOVE_NAMES[scene.lasting_draw(node) % len(MOVE_NAMES)]
                return _pass(window, first, draw)
            return _around(outline(lines, PATROL, PATROL), here, window, draw)
        shape = outline(lines, *inset(clock))
        if shape.has(here):
            return _hold(shape, here, window, drifting=clock < GATHERED)
        return _join(shape, here, window, draw)

    def found(self, node: int) -> Cell | None:
        """Return the middle of the map, once three walls were seen."""
        full = complete(self.walls[node])
        if len(full) < len(MOVE_NAMES):
            return None
        return (full["UP"] + full["DOWN"]) // 2, (full["LEFT"] + full["RIGHT"]) // 2


class Outline(NamedTuple):
    """Rows and columns of the four sides, in the agent's own frame."""

    top: int
    left: int
    bottom: int
    right: int

    def has(self, cell: Cell) -> bool:
        """Return whether a cell belongs to the outline."""
        i, j = cell
        within = self.top <= i <= self.bottom and self.left <= j <= self.right
        return within and (i in (self.top, self.bottom) or j in (self.left, self.right))

    def clockwise(self, cell: Cell) -> Cell:
        """Return the clockwise step from a cell of the outline."""
        i, j = cell
        if i == self.top and j < self.right:
            return (0, 1)
        if j == self.right and i < self.bottom:
            return (1, 0)
        if i == self.bottom and j > self.left:
            return (0, -1)
        return (-1, 0)

    def counter(self, cell: Cell) -> Cell:
        """Return the counterclockwise step from a cell of the outline."""
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
    """Return the outline inset by `near` from the upper and left walls, by `far` from the others.

    Sides whose wall is not known are far away.
    """
    return Outline(
        walls.get("UP", -_FAR) + near,
        walls.get("LEFT", -_FAR) + near,
        walls.get("DOWN", _FAR) - far,
        walls.get("RIGHT", _FAR) - far,
    )


def inset(clock: int) -> tuple[int, int]:
    """Return the insets `near` and `far` of the outline in a round; see `outline`."""
    rounds, steps = ROUNDS_PER_STEP
    both = INSET + max(0, clock - GATHERED) * steps // rounds
    return (both + 1) // 2, both // 2


def _hold(shape: Outline, here: Cell, window: Sequence[str], drifting: bool) -> str:
    """Keep the place, but even out the gaps on both sides.

    Before the outline contracts, the first agent of a queue moves on clockwise, so that gaps move
    towards the agents that walk around the outline in search of one.
    """
    ahead, behind = (_free(shape, here, window, forward) for forward in (True, False))
    if ahead > behind + 1 or (drifting and ahead > behind == 0):
        return MOVE_NAME[shape.clockwise(here)]
    return MOVE_NAME[shape.counter(here)] if behind > ahead + 1 else "STAY"


def _free(shape: Outline, here: Cell, window: Sequence[str], forward: bool) -> int:
    """Count the free cells of the outline in sight before the next agent, to one side."""
    cell = here
    for count in range(_SIGHT):
        cell = add(cell, shape.clockwise(cell) if forward else shape.counter(cell))
        if at(window, sub(cell, here)) != ".":
            return count
    return _SIGHT


def _join(shape: Outline, here: Cell, window: Sequence[str], draw: int) -> str:
    """Step to the nearest gap in sight with no other agent nearer, else walk on around."""
    others = [o for o in find(window, "A") if not shape.has(add(here, o))]
    gaps = [o for o in find(window, ".") if shape.has(add(here, o))]
    mine = [gap for gap in gaps if all(manhattan(o, gap) >= manhattan(gap) for o in others)]
    if not mine:
        return _around(shape, here, window, draw)
    target = min(mine, key=lambda gap: (manhattan(gap), gap))
    nearer = [
        name
        for name in MOVE_NAMES
        if at(window, STEP[name]) == "." and manhattan(target, STEP[name]) < manhattan(target)
    ]
    return nearer[draw % len(nearer)] if nearer else "STAY"


def _around(shape: Outline, here: Cell, window: Sequence[str], draw: int) -> str:
    """Step clockwise around an outline if on it or outside, else to its nearest side."""
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
    """Step in a direction, also behind another agent; sometimes go around one in the way."""
    i, j = STEP[name]
    if at(window, (i, j)) != "." and draw >> 8 & 3 == 0:
        beside = [n for n in MOVE_NAMES if STEP[n] in ((j, i), (-j, -i))]
        free = [n for n in beside if at(window, STEP[n]) == "."]
        if free:
            return free[draw % len(free)]
    return name
