"""Transport: find the plugged exit, push its box along the wall, then out; leave the map.

The agent tours the corners of the map, because the exit is always at one; it infers the exit and
the stage of the box from the walls and box cells it sees. An exit is a corner and two directions:
along the wall away from the corner, and inward (spec section 4.5). Cells near it are places (offset
along the wall, line inward), the same for every agent that knows the exit. The box can only move
one step along the wall towards the corner and then straight out, so it is in one of six stages.
The places as built, with the box B, the wall #, the pocket o and its entrance e (the corner of the
map is at offset 0, line 0):

    offset  0 1 2 3 4 5
    line 0  B B B B # #
    line 1  # o B B B .
    line 2  # o B B B .     a push from the right shifts the box towards the corner;
    line 3  # o B B B .     then pushes from below move it out, one line per stage
    line 4  # e . . . .

Agents behind the box keep pushing, in queues if necessary, so no agent has to detect when the
required five have arrived. The landmark that agents report is the exit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple, TypeAlias

from waggle.substrates.swarmbench.agent.compass import (
    MOVE_NAME,
    OUTSIDE,
    add,
    at,
    chebyshev,
    find,
    manhattan,
    sub,
    walls,
)
from waggle.substrates.swarmbench.agent.memory import Memory
from waggle.substrates.swarmbench.agent.navigate import approach, first_step
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import MOVE_NAMES, STEP, Cell
from waggle.substrates.swarmbench.tasks.base import Landmark, Plan

Place: TypeAlias = Cell
"""A cell in the frame of an exit: (offset along the wall from the corner, line inward)."""
TOWARDS_CORNER: Place = (-1, 0)
OUTWARD: Place = (0, -1)
"""The two directions in which the box is pushed, as steps in the frame of an exit."""
SHUT, SHIFTED, OPEN = 0, 1, 5
"""Stages of the box: as built, pushed along by one, wholly outside; 2 to 4 are on the way out."""
GAP = 4
"""Number of wall cells that the exit takes, counted from the corner."""
LANES = (1, 2, 3)
"""Lines on which the box is pushed along, and offsets at which it is pushed out."""
POCKET: frozenset[Place] = frozenset({(1, line) for line in LANES})
"""The floor between corner and box before the box is pushed along; an agent there blocks it."""
POCKET_ENTRANCE: Place = (1, 4)
"""The place from which a step outward leads into the pocket."""
BEHIND_BOX: Place = (3, 4)
"""The place behind the middle of the box as built; agents far from the exit walk towards it."""
REPORTED: Place = (2, 2)
"""The place behind the middle of the exit that stands for the exit in reports."""
CREW = 8
"""Agents seen behind the box that suffice to push it along; others prepare to push it out."""
NEAR = 5
"""Distance from both walls of a corner at which a box there would be in sight."""
CLOSE = 10
"""Distance from the exit within which paths around box and agents are searched."""
_STAGES = range(SHUT, OPEN + 1)
_ALL_STAGES = (1 << len(_STAGES)) - 1
"""All stages as a bitmask; bit s stands for stage s."""
_KNOWN = 6
"""Number of offsets and lines from the corner that the plan of an exit covers."""
_SEARCH = 400
"""Maximum number of cells in a path search."""
_SIGHT = 2
"""Distance at which a walking agent takes a cell to be in sight; a 5x5 window reaches as far."""
_CORNERS = (("UP", "LEFT"), ("UP", "RIGHT"), ("DOWN", "RIGHT"), ("DOWN", "LEFT"))
"""Sides that meet in the corners of the map, clockwise."""


class Exit(NamedTuple):
    """The position and orientation of an exit, in the agent's own frame."""

    corner: Cell
    along: Cell
    inward: Cell

    def cell(self, place: Place) -> Cell:
        """Return the cell at a place."""
        (i, j), (along_i, along_j), (inward_i, inward_j) = self
        offset, line = place
        return i + offset * along_i + line * inward_i, j + offset * along_j + line * inward_j

    def place(self, cell: Cell) -> Place:
        """Return the place of a cell: its distances from the corner in the two directions."""
        (corner_i, corner_j), (along_i, along_j), (inward_i, inward_j) = self
        i, j = cell[0] - corner_i, cell[1] - corner_j
        return i * along_i + j * along_j, i * inward_i + j * inward_j

    def move(self, step: Place) -> str:
        """Name the move that changes the place by a unit step."""
        return MOVE_NAME[sub(self.cell(step), self.corner)]


def _box(stage: int) -> frozenset[Place]:
    aside, out = min(stage, SHIFTED), max(stage - SHIFTED, 0)
    bar = {(offset, 0) for offset in range(GAP)}
    block = {(offset, line) for offset in (2, 3, 4) for line in LANES}
    return frozenset((offset - aside, line - out) for offset, line in bar | block)


BOX: tuple[frozenset[Place], ...] = tuple(_box(stage) for stage in _STAGES)
"""Places of the box by stage; some lie outside the map."""
_BOX_OFFSET = max(offset for offset, _ in BOX[SHUT])
"""Offset of the side of the box, as built, on which agents push it along."""
_BOX_LINE = tuple(max(line for _, line in box) for box in BOX)
"""Line of the side of the box, by stage, on which agents push it out."""


def _walled(place: Place) -> bool:
    """Return whether a place near the corner is wall."""
    offset, line = place
    return (line == 0 and offset >= GAP) or (offset == 0 and line > 0)


_PLAN = [(p, _walled(p)) for p in product(range(_KNOWN), range(_KNOWN))]
"""The plan of an exit: its places, and whether each is wall."""


def _expected(place: Place, stage: int) -> str:
    """Return the symbol at a place near the corner; floor stands for an agent there, too."""
    if min(place) < 0:
        return OUTSIDE
    if place in BOX[stage]:
        return "B"
    return "W" if _walled(place) else "."


@cache
def _agreeing(offset: int, line: int, symbol: str) -> int:
    """Return the stages of the box in which a place shows a symbol, as a bitmask."""
    return sum(1 << stage for stage in _STAGES if _expected((offset, line), stage) == symbol)


def _stages(exit: Exit, window: Sequence[str], here: Cell) -> list[int]:
    """Return the stages of the box that agree with everything a window shows of the exit."""
    half = len(window) // 2
    _, (along_i, along_j), (inward_i, inward_j) = exit
    first_offset, first_line = exit.place((here[0] - half, here[1] - half))
    possible = _ALL_STAGES
    for i, row in enumerate(window):
        for j, symbol in enumerate(row):
            # The place of the window's cell (i, j), as `Exit.place` returns it.
            offset = first_offset + i * along_i + j * along_j
            line = first_line + i * inward_i + j * inward_j
            if offset < _KNOWN and line < _KNOWN:
                seen = symbol if symbol in "WB*" else "."
                # All places outside the map look alike; -1 stands for them in the cache.
                possible &= _agreeing(max(offset, -1), max(line, -1), seen)
        if not possible:
            break
    return [stage for stage in _STAGES if (possible >> stage) & 1]


def _stage_now(exit: Exit, window: Sequence[str], here: Cell, last: int) -> int:
    """Return the stage of the box after a look: the last one if possible, else the next one."""
    possible = _stages(exit, window, here)
    if last in possible or not possible:
        return last
    return next((stage for stage in possible if stage > last), possible[0])


def _exits(box: Cell) -> set[Exit]:
    """Return every exit whose box could have a given cell inside the map."""
    steps = list(STEP.values())
    frames = [(u, v) for u in steps for v in steps if u[0] * v[0] + u[1] * v[1] == 0]
    places = {place for stage in _STAGES for place in BOX[stage] if min(place) >= 0}
    return {
        Exit(sub(box, Exit((0, 0), u, v).cell(place)), u, v) for u, v in frames for place in places
    }


def _agrees(exit: Exit, known: Collection[Cell], solid: Collection[Cell]) -> bool:
    """Return whether walls and floor seen before lie where an exit has them."""
    for place, wall in _PLAN:
        cell = exit.cell(place)
        if cell in known and (cell in solid) != wall:
            return False
    return True


def _disputed(exits: Sequence[Exit]) -> set[Cell]:
    """Return the cells that are wall according to one of the exits and floor to another."""
    plans = [{exit.cell(place): wall for place, wall in _PLAN} for exit in exits]
    return {
        cell
        for plan in plans
        for cell, wall in plan.items()
        if any(other.get(cell, wall) != wall for other in plans)
    }


class ExitMemory:
    """An agent's knowledge of the exit and of its search for it."""

    __slots__ = ("before", "box", "corner", "exits", "stage", "turn", "walls")

    def __init__(self, draw: int) -> None:
        self.exits: list[Exit] = []
        """Exits that agree with everything seen so far; the first is assumed to be right."""
        self.stage = SHUT
        self.box: set[Cell] = set()
        """Cells where the box was last seen."""
        self.corner = draw % 4
        """The corner of the map that the agent is heading for."""
        self.turn = 1 if (draw >> 2) & 1 else -1
        """The direction in which the corners are toured."""
        self.walls: dict[str, int] = {}
        """Side -> the row or column of the map's wall there, in the own frame."""
        self.before: Cell | None = None
        """The agent's cell one round ago."""

    def update(self, memory: Memory, window: Sequence[str]) -> None:
        """Update walls, box, possible exits and the stage of the box."""
        here = memory.here
        self.walls.update(walls(window, here))
        seen = {add(here, offset) for offset in find(window, "B")}
        self.box = {cell for cell in self.box if chebyshev(cell, here) > len(window) // 2} | seen
        if not self.exits and seen:
            candidates = _exits(min(seen))
            self.exits = sorted(
                exit for exit in candidates if _agrees(exit, memory.known, memory.solid)
            )
        self.exits = [exit for exit in self.exits if _stages(exit, window, here)]
        if self.exits:
            self.stage = _stage_now(self.exits[0], window, here, self.stage)

    def is_near(self, memory: Memory, side: str) -> bool:
        """Return whether a side's wall is so near that a box in its corner would be in sight."""
        line = self.walls.get(side)
        axis = 0 if STEP[side][0] else 1
        return line is not None and abs(line - memory.here[axis]) <= NEAR


class TransportBehaviour(Landmark):
    """One landmark: the plugged exit."""

    goal = (
        "The box B plugs the exit. Several must push it together: first along the wall "
        "towards the corner, then outward. Then leave the map."
    )
    kind = "exit"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.notes = [ExitMemory(scene.lasting_draw(node)) for node in range(len(scene.keys))]

    def look(self, node: int) -> Plan:
        """Leave if the way out is in sight, work on the box if its exit is known, else search."""
        scene, notes = self.scene, self.notes[node]
        memory, window = scene.memories[node], scene.windows[node]
        notes.update(memory, window)
        out = _way_out(window)
        if out is not None:
            return Plan(out, True)
        if not notes.exits:
            return Plan(_tour(notes, memory, window), False)
        move = _work(notes, memory, window, scene.draw(node))
        back = move in STEP and add(memory.here, STEP[move]) == notes.before
        notes.before = memory.here
        # Two agents in each other's way would step back and forth for ever, so wait sometimes.
        return Plan("STAY" if back and (scene.draw(node) >> 16) & 1 else move, True)

    def found(self, node: int) -> Cell | None:
        """Return a cell behind the middle of the exit, once only one exit is possible."""
        exits = self.notes[node].exits
        return exits[0].cell(REPORTED) if len(exits) == 1 else None


def _way_out(window: Sequence[str]) -> str | None:
    """Return the first move of a free path inside the window to a cell outside the map."""
    return first_step(
        (0, 0),
        lambda cell: at(window, cell) in (".", OUTSIDE),
        lambda cell: at(window, cell) == OUTSIDE,
    )


def _work(notes: ExitMemory, memory: Memory, window: Sequence[str], draw: int) -> str:
    """Push if the agent stands behind the box, else walk there."""
    exit, stage = notes.exits[0], notes.stage
    crowd = {add(memory.here, offset) for offset in find(window, "A")}
    if len(notes.exits) > 1:
        step = _tell_apart(notes, memory, crowd, draw)
        if step is not None:
            return step
    way = sub(exit.cell(BEHIND_BOX), memory.here)
    if manhattan(way) > CLOSE:
        return approach(window, way, draw)
    place = exit.place(memory.here)
    if stage == SHUT and sum(_pushes_along(exit.place(cell)) for cell in crowd) < CREW:
        if _pushes_along(place):
            return exit.move(TOWARDS_CORNER)
        return _walk(notes, memory, crowd, _pushes_along, draw)
    if _pushes_out(place, stage):
        # While the box is shut, a step from the entrance into the pocket would block it.
        return "STAY" if stage == SHUT and place == POCKET_ENTRANCE else exit.move(OUTWARD)
    return _walk(notes, memory, crowd, lambda p: _pushes_out(p, stage), draw)


def _pushes_along(place: Place) -> bool:
    """Return whether a push from here towards the corner acts on the box as built."""
    offset, line = place
    return offset > _BOX_OFFSET and line in LANES


def _pushes_out(place: Place, stage: int) -> bool:
    """Return whether a push from here goes out through the exit."""
    offset, line = place
    return offset in LANES and line > _BOX_LINE[stage]


def _tell_apart(notes: ExitMemory, memory: Memory, crowd: set[Cell], draw: int) -> str | None:
    """Walk to where cells that tell the possible exits apart are in sight, if there are any."""
    disputed = _disputed(notes.exits) - memory.known

    def sees(cell: Cell) -> bool:
        return any(chebyshev(cell, other) <= _SIGHT for other in disputed)

    return _step_around(memory.here, memory.solid | notes.box, crowd, sees, draw)


def _walk(
    notes: ExitMemory,
    memory: Memory,
    crowd: set[Cell],
    goal: Callable[[Cell], bool],
    draw: int,
) -> str:
    """Step along a shortest path to the nearest free goal, or stay."""
    exit, stage = notes.exits[0], notes.stage
    blocked = memory.solid | {exit.cell(place) for place in BOX[stage]}
    # An agent in the gap blocks the way of the box, as does one in the pocket while it is shut.
    blocked |= {exit.cell((offset, 0)) for offset in range(GAP)}
    if stage == SHUT and exit.place(memory.here) not in POCKET:
        blocked |= {exit.cell(place) for place in POCKET}
    step = _step_around(memory.here, blocked, crowd, lambda c: goal(exit.place(c)), draw)
    return step or "STAY"


def _step_around(
    start: Cell, blocked: set[Cell], crowd: set[Cell], goal: Callable[[Cell], bool], draw: int
) -> str | None:
    """Return the first move of a shortest path to a goal; ignore agents if no path is free."""
    names = MOVE_NAMES[draw % 4 :] + MOVE_NAMES[: draw % 4]
    around = blocked | crowd
    free = first_step(start, lambda c: c not in around, goal, names, _SEARCH)
    return free or first_step(start, lambda c: c not in blocked, goal, names, _SEARCH)


def _tour(notes: ExitMemory, memory: Memory, window: Sequence[str]) -> str:
    """Step towards a corner of the map; once it is in sight without a box, try the next."""
    for _ in _CORNERS:
        sides = _CORNERS[notes.corner]
        far = [side for side in sides if not notes.is_near(memory, side)]
        ahead = far or [side for side in sides if not _faces_wall(window, STEP[side])]
        free = [side for side in ahead if at(window, STEP[side]) == "."]
        if free:
            return free[memory.clock % len(free)]
        if far:
            return _aside(window, far[0])
        notes.corner = (notes.corner + notes.turn) % 4
    return "STAY"


def _aside(window: Sequence[str], name: str) -> str:
    """Step to the right of the agent ahead, else to the left, else push it."""
    i, j = STEP[name]
    for step in ((j, -i), (-j, i)):
        if at(window, step) == ".":
            return MOVE_NAME[step]
    return name


def _faces_wall(window: Sequence[str], step: Cell) -> bool:
    """Return whether there is wall one or two cells ahead."""
    return at(window, step) in "W*" or at(window, add(step, step)) in "W*"
