"""Finding the way on a private map: to a cell, or to the nearest place not yet seen.

Unknown cells count as free (optimism), so a told site can be walked to before the map is known.
Pure functions of the map; ties fall to a draw that the caller names.
"""

from __future__ import annotations

from collections import deque

from waggle.substrates.swarmbench.agent.compass import MOVE_NAMES, STEP, add
from waggle.substrates.swarmbench.agent.memory import Memory
from waggle.substrates.swarmbench.sim.config import Cell

_MARGIN = 2
"""How far beyond everything known a way may lead."""


def distances(memory: Memory, goal: Cell) -> dict[Cell, int]:
    """Return the walking distance to the goal from every cell around, unknown cells free.

    The goal itself may be solid (food, nest): it is reached by standing next to it. The search
    stops once the agent's own surroundings are settled; the result is kept until the map changes.
    """
    key = (goal, memory.walls)
    if memory.plan_key == key and memory.here in memory.field:
        return memory.field
    top, left, bottom, right = _bounds(memory, goal)
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
    memory.plan_key, memory.field = key, field
    return field


def _bounds(memory: Memory, goal: Cell) -> tuple[int, int, int, int]:
    cells = [*memory.known, goal]
    rows, columns = [i for i, _ in cells], [j for _, j in cells]
    return (
        min(rows) - _MARGIN,
        min(columns) - _MARGIN,
        max(rows) + _MARGIN,
        max(columns) + _MARGIN,
    )


def step_to(memory: Memory, goal: Cell, crowd: frozenset[Cell], draw: int) -> str | None:
    """Return the move that leads to the goal, or None if there is no way.

    Args:
        memory: the private map.
        goal: a cell of the map's frame.
        crowd: offsets of agents in sight; a free cell is preferred among equally short ways, and
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
    if ranked[0][1] and memory.still >= 2:
        aside = [entry for entry in ranked if not entry[1] and entry[0] <= here + 1]
        if aside:
            return aside[0][3]
    return ranked[0][3] if ranked[0][0] < here else None


def frontier(memory: Memory, draw: int) -> Cell | None:
    """Return the nearest cell not yet seen that can be walked to over seen cells, or None.

    Among the nearest the one most in line with the present heading is taken, then by draw.
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
