"""Walking: straight to an offset, along a heading, or by path finding on the private map.

Unknown cells count as free, so an agent can walk to a reported site before it knows the map.
Functions of window and map; apart from the cache of `distances`, only `sweep` changes the memory,
and only its heading. Ties are broken by a draw that the caller passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from waggle.substrates.swarmbench.agent.compass import BLOCKED, add, at
from waggle.substrates.swarmbench.agent.memory import Memory
from waggle.substrates.swarmbench.sim.config import MOVE_NAMES, STEP, Cell

_MARGIN = 2
"""Number of cells beyond the known area that a path may lead."""
_HEADINGS: tuple[Cell, ...] = tuple(
    (i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
)


def approach(window: Sequence[str], offset: Cell, draw: int) -> str:
    """Step towards a far cell along the longer axis, or the other axis if that is blocked."""
    i, j = offset
    moves = []
    if i:
        moves.append((abs(i), "DOWN" if i > 0 else "UP"))
    if j:
        moves.append((abs(j), "RIGHT" if j > 0 else "LEFT"))
    moves.sort(key=lambda entry: (-entry[0], (draw >> (len(entry[1]))) & 1))
    ahead = [(name, at(window, STEP[name])) for _, name in moves]
    free = [name for name, symbol in ahead if symbol == "."]
    passable = free or [name for name, symbol in ahead if symbol not in BLOCKED | {"P"}]
    return passable[0] if passable else "STAY"


def sweep(memory: Memory, window: Sequence[str], draw: int) -> str:
    """Keep a heading until a wall comes into sight ahead or a jam stops it, then draw a new one."""
    heading = memory.heading
    jammed = memory.blocked > 0 or (heading is not None and _jammed(window, heading))
    if heading is None or jammed or _faces_wall(window, heading):
        free = [h for h in _HEADINGS if not _faces_wall(window, h) and not _jammed(window, h)]
        if heading is not None and not jammed:
            back = (-heading[0], -heading[1])
            free = [h for h in free if h != back] or free
        heading = free[draw % len(free)] if free else _HEADINGS[draw % len(_HEADINGS)]
        memory.heading = heading
    far = (9 * heading[0], 9 * heading[1])
    if heading[0] and heading[1]:
        # A diagonal heading is walked as a staircase.
        far = (far[0], 0) if memory.clock % 2 else (0, far[1])
    return approach(window, far, draw)


def _faces_wall(window: Sequence[str], heading: Cell) -> bool:
    """Return whether the window shows terrain two cells ahead on an axis of the heading."""
    ahead = [(2 * heading[0], 0), (0, 2 * heading[1])]
    return any(at(window, offset) in BLOCKED for offset in ahead if offset != (0, 0))


def _jammed(window: Sequence[str], heading: Cell) -> bool:
    """Return whether every first step of a heading is blocked, for instance by another agent."""
    steps = [(heading[0], 0), (0, heading[1])]
    return all(at(window, step) != "." for step in steps if step != (0, 0))


def first_step(
    start: Cell,
    is_free: Callable[[Cell], bool],
    is_goal: Callable[[Cell], bool],
    names: Sequence[str] = MOVE_NAMES,
    limit: int = 1 << 30,
) -> str | None:
    """Return the first move of a shortest path to a goal by breadth-first search, or None.

    Args:
        start: where the path begins.
        is_free: whether a cell can be entered; a goal must be free, too.
        is_goal: whether a cell is a goal; the start is never tested.
        names: the moves in the order in which they are tried.
        limit: the search stops once it has reached this many cells.
    """
    ring: list[tuple[Cell, str]] = [(start, "")]
    reached = {start}
    while ring and len(reached) < limit:
        following: list[tuple[Cell, str]] = []
        for cell, first in ring:
            for name in names:
                nxt = add(cell, STEP[name])
                if nxt in reached or not is_free(nxt):
                    continue
                if is_goal(nxt):
                    return first or name
                reached.add(nxt)
                following.append((nxt, first or name))
        ring = following
    return None


def distances(memory: Memory, goal: Cell) -> dict[Cell, int]:
    """Return the walking distance to the goal from every cell around; unknown cells are free.

    The goal itself may be solid (food, nest): it is reached by standing next to it. The search
    stops once the agent's surroundings are covered; the result is cached until the map changes.
    """
    key = (goal, len(memory.solid))
    if memory.distance_key == key and memory.here in memory.distance_map:
        return memory.distance_map
    rows, columns = zip(*memory.known, goal, strict=True)
    top, bottom = min(rows) - _MARGIN, max(rows) + _MARGIN
    left, right = min(columns) - _MARGIN, max(columns) + _MARGIN
    solid, here = memory.solid, memory.here
    field = {goal: 0}
    queue = deque([goal])
    limit: int | None = None
    while queue:
        cell = queue.popleft()
        distance = field[cell] + 1
        if limit is not None and distance > limit:
            break
        for di, dj in STEP.values():
            nxt = (cell[0] + di, cell[1] + dj)
            if nxt in field or nxt in solid:
                continue
            if top <= nxt[0] <= bottom and left <= nxt[1] <= right:
                field[nxt] = distance
                queue.append(nxt)
                if nxt == here:
                    limit = distance + 4
    memory.distance_key, memory.distance_map = key, field
    return field


def step_to(memory: Memory, goal: Cell, crowd: frozenset[Cell], draw: int) -> str | None:
    """Return the first move of a shortest path to the goal, or None if there is no path.

    Args:
        memory: the private map.
        goal: a cell of the map's frame.
        crowd: offsets of agents in sight; a free cell is preferred among equally short paths, and
            a blocked agent steps aside now and then.
        draw: 64 bits that break ties.
    """
    field = distances(memory, goal)
    here = field.get(memory.here)
    if here is None:
        return None
    ranked = []
    for k, name in enumerate(MOVE_NAMES):
        offset = STEP[name]
        there = field.get(add(memory.here, offset))
        if there is not None and add(memory.here, offset) not in memory.solid:
            ranked.append((there, offset in crowd, draw >> (8 * k) & 0xFF, name))
    if not ranked:
        return None
    ranked.sort()
    if ranked[0][1] and memory.blocked >= 2:
        aside = [entry for entry in ranked if not entry[1] and entry[0] <= here + 1]
        if aside:
            return aside[0][3]
    return ranked[0][3] if ranked[0][0] < here else None


def frontier(memory: Memory, draw: int) -> Cell | None:
    """Return the nearest unseen cell that can be reached over seen cells, or None.

    Ties go to the cell most in line with the current heading, then by draw.
    """
    known, solid = memory.known, memory.solid
    heading = memory.heading or (0, 0)
    start = memory.here
    seen = {start}
    ring = [start]
    while ring:
        found: list[tuple[int, int, Cell]] = []
        following: list[Cell] = []
        for cell in ring:
            for k, offset in enumerate(STEP.values()):
                nxt = add(cell, offset)
                if nxt in seen or nxt in solid:
                    continue
                seen.add(nxt)
                if nxt in known:
                    following.append(nxt)
                    continue
                ahead = (nxt[0] - start[0]) * heading[0] + (nxt[1] - start[1]) * heading[1]
                found.append((-ahead, (draw >> (8 * k)) & 0xFF, nxt))
        if found:
            return min(found)[2]
        ring = following
    return None
