"""The private proposal of Transport: find the plugged exit, push its box along, then out; leave.

The agent tours the corners of the map, because an exit is always at one; what it sees of walls and
box tells it the exit and the stage of the box (`crate`). Whoever stands behind the box keeps
pushing, in files if need be, so that nobody has to know when the five that it takes have come.
Pure functions of windows and private memory; `recall` alone changes an agent's notes, and `tour`
the corner it is heading for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from waggle.substrates.swarmbench.agent.compass import (
    MOVE_NAMES,
    OUTSIDE,
    STEP,
    add,
    at,
    found,
    reach,
    sub,
    taxi,
    walls,
)
from waggle.substrates.swarmbench.agent.memory import Memory
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.tasks import crate, hunt
from waggle.substrates.swarmbench.tasks.crate import (
    BOX,
    GAP,
    LANES,
    POCKET,
    SHIFTED,
    SHUT,
    Exit,
)

CREW = 8
"""Agents seen behind the box that are enough to push it along; others get ready to push it out."""
NEAR = 5
"""Distance from both walls of a corner at which a box there would be in sight."""
CLOSE = 10
"""Distance from the exit from which on ways around box and agents are searched."""
_SEARCH = 400
"""Cells a way is searched over at most."""
_CORNERS = (("UP", "LEFT"), ("UP", "RIGHT"), ("DOWN", "RIGHT"), ("DOWN", "LEFT"))
"""Sides that meet in the corners of the map, clockwise."""


class Notes:
    """What an agent keeps in mind of the exit and of its search for it."""

    __slots__ = ("before", "box", "corner", "exits", "sense", "stage", "walls")

    def __init__(self, draw: int) -> None:
        self.exits: list[Exit] = []
        """Exits that agree with everything seen so far; the first is taken for true."""
        self.stage = SHUT
        self.box: set[Cell] = set()
        """Cells where the box was last seen."""
        self.corner = draw % 4
        """The corner of the map now searched for."""
        self.sense = 1 if draw >> 2 & 1 else -1
        """Which way round the corners are toured."""
        self.walls: dict[str, int] = {}
        """Side -> the row or column of the map's wall there, in the own frame."""
        self.before: Cell | None = None
        """Where the agent was a round ago."""

    def recall(self, memory: Memory, window: Sequence[str]) -> None:
        """Bring walls, box, possible exits and the stage of the box up to date."""
        here = memory.here
        self.walls.update(walls(window, here))
        seen = {add(here, offset) for offset in found(window, "B")}
        self.box = {cell for cell in self.box if reach(cell, here) > len(window) // 2} | seen
        if not self.exits and seen:
            candidates = crate.exits(min(seen))
            self.exits = sorted(
                exit for exit in candidates if crate.agrees(exit, memory.known, memory.solid)
            )
        self.exits = [exit for exit in self.exits if crate.stages(exit, window, here)]
        if self.exits:
            self.stage = crate.stage_now(self.exits[0], window, here, self.stage)


def way_out(window: Sequence[str]) -> str | None:
    """Return the first move of a free way inside the window to a cell outside the map."""
    ring: list[tuple[Cell, str]] = [((0, 0), "")]
    reached = {(0, 0)}
    while ring:
        following = []
        for cell, first in ring:
            for name in MOVE_NAMES:
                nxt = add(cell, STEP[name])
                symbol = at(window, nxt)
                if nxt in reached or symbol not in (".", OUTSIDE):
                    continue
                if symbol == OUTSIDE:
                    return first or name
                reached.add(nxt)
                following.append((nxt, first or name))
        ring = following
    return None


def work(notes: Notes, memory: Memory, window: Sequence[str], draw: int) -> str:
    """Push where the agent stands behind the box, else walk there."""
    exit, stage = notes.exits[0], notes.stage
    crowd = {add(memory.here, offset) for offset in found(window, "A")}
    if len(notes.exits) > 1:
        step = tell_apart(notes, memory, crowd, draw)
        if step is not None:
            return step
    offset = sub(exit.cell((3, 4)), memory.here)
    if taxi(offset) > CLOSE:
        return hunt.approach(window, offset, draw)
    place = exit.place(memory.here)
    if stage == SHUT and sum(along(exit.place(cell)) for cell in crowd) < CREW:
        if along(place):
            return exit.move((-1, 0))
        return walk(notes, memory, crowd, along, draw)
    if outward(place, stage):
        return "STAY" if place == (1, 4) and stage == SHUT else exit.move((0, -1))
    return walk(notes, memory, crowd, lambda p: outward(p, stage), draw)


def tell_apart(notes: Notes, memory: Memory, crowd: set[Cell], draw: int) -> str | None:
    """Walk to where the exits that are still possible would look different."""
    disputed = crate.disputed(notes.exits) - memory.known
    blocked = memory.solid | notes.box

    def sees(cell: Cell) -> bool:
        return any(reach(cell, other) <= 2 for other in disputed)

    return first_step(memory.here, blocked | crowd, sees, draw) or first_step(
        memory.here, blocked, sees, draw
    )


def along(place: Cell) -> bool:
    """Whether a push from here towards the corner ends at the box as built."""
    return place[0] > 4 and place[1] in LANES


def outward(place: Cell, stage: int) -> bool:
    """Whether a push from here goes out through the exit."""
    return place[0] in LANES and place[1] > (3 if stage <= SHIFTED else 4 - stage)


def walk(
    notes: Notes,
    memory: Memory,
    crowd: set[Cell],
    goal: Callable[[Cell], bool],
    draw: int,
) -> str:
    """Step along a shortest way to the nearest free goal; past others if there is no free way."""
    exit, stage = notes.exits[0], notes.stage
    blocked = memory.solid | {exit.cell(place) for place in BOX[stage]}
    blocked |= {exit.cell((offset, 0)) for offset in range(GAP)}
    if stage == SHUT and exit.place(memory.here) not in POCKET:
        blocked |= {exit.cell(place) for place in POCKET}

    def wanted(cell: Cell) -> bool:
        return goal(exit.place(cell))

    step = first_step(memory.here, blocked | crowd, wanted, draw)
    return step or first_step(memory.here, blocked, wanted, draw) or "STAY"


def first_step(
    start: Cell, blocked: set[Cell], goal: Callable[[Cell], bool], draw: int
) -> str | None:
    """Return the first move of a shortest way to a goal around blocked cells, or None."""
    names = MOVE_NAMES[draw % 4 :] + MOVE_NAMES[: draw % 4]
    ring: list[tuple[Cell, str]] = [(start, "")]
    reached = {start}
    while ring and len(reached) < _SEARCH:
        following: list[tuple[Cell, str]] = []
        for cell, first in ring:
            for name in names:
                nxt = add(cell, STEP[name])
                if nxt in reached or nxt in blocked:
                    continue
                if goal(nxt):
                    return first or name
                reached.add(nxt)
                following.append((nxt, first or name))
        ring = following
    return None


def tour(notes: Notes, memory: Memory, window: Sequence[str]) -> str:
    """Walk towards a corner of the map; once it is in sight without a box, on to the next."""
    for _ in _CORNERS:
        sides = _CORNERS[notes.corner]
        far = [side for side in sides if not _near(notes, memory, side)]
        ahead = far or [side for side in sides if not _walled(window, side)]
        free = [side for side in ahead if at(window, STEP[side]) == "."]
        if free:
            return free[memory.clock % len(free)]
        if far:
            return _aside(window, far[0])
        notes.corner = (notes.corner + notes.sense) % 4
    return "STAY"


def _near(notes: Notes, memory: Memory, side: str) -> bool:
    """Whether the wall of a side is so near that a box in a corner there would be in sight."""
    line = notes.walls.get(side)
    axis = 0 if STEP[side][0] else 1
    return line is not None and abs(line - memory.here[axis]) <= NEAR


def _aside(window: Sequence[str], name: str) -> str:
    """Step to the right of whoever stands ahead, else to the left, else push."""
    i, j = STEP[name]
    for step in ((j, -i), (-j, i)):
        if at(window, step) == ".":
            return next(move for move, offset in STEP.items() if offset == step)
    return name


def _walled(window: Sequence[str], name: str) -> bool:
    """Whether there is wall one or two cells ahead."""
    step = STEP[name]
    return at(window, step) in "W*" or at(window, add(step, step)) in "W*"
