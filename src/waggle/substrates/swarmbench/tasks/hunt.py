"""The private proposal of Pursuit: close in on a prey in sight, chase one just lost, else sweep.

A pure function of the agent's window and private memory (adapter spec, section 4). Agents around
one prey share its frame, so they agree on who takes which side without a word.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.substrates.swarmbench.agent.compass import (
    BLOCKED,
    MOVE_NAMES,
    STEP,
    add,
    at,
    found,
    sub,
    taxi,
)
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.sim.config import MOVES, Cell
from waggle.substrates.swarmbench.tasks.base import Plan

CHASE = 6
"""Rounds for which a prey that went out of sight is still chased."""
SEARCH = 8
"""Rounds for which the surroundings of a missed prey are searched."""
RADIUS = 4
"""How far around a missed prey is searched."""
LEAD = 3
"""Cells by which a prey is guessed to have fled."""
_HEADINGS: tuple[Cell, ...] = tuple(
    (i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
)


def propose(memory: Memory, window: Sequence[str], draw: int) -> Plan:
    """Return the private move of a hunter."""
    prey = found(window, "P")
    if prey:
        return Plan(surround(window, prey[0]), True)
    trail = memory.trail
    if trail is not None and is_warm(memory, trail):
        return Plan(approach(window, sub(trail.cell, memory.here), draw), True)
    return Plan(sweep(memory, window, draw), False)


def surround(window: Sequence[str], prey: Cell) -> str:
    """Step towards the side of the prey that falls to this agent; hold a side once on it."""
    sides = [add(prey, move) for move in MOVES]
    if (0, 0) in sides:
        return "STAY"
    hunters = [(0, 0), *found(window, "Aa")]
    open_sides = [side for side in sides if at(window, side) in ".?"]
    waiting = [hunter for hunter in hunters if hunter not in sides]
    target = _my_side(prey, open_sides, waiting)
    if target is None:
        target = min(sides, key=lambda side: (taxi(side), sub(side, prey)))
    return _path(window, target) or "STAY"


def _my_side(prey: Cell, sides: list[Cell], hunters: list[Cell]) -> Cell | None:
    """Match hunters to open sides, nearest pair first, ties in the prey's frame; mine or None."""
    pairs = sorted(
        (taxi(side, hunter), sub(side, prey), sub(hunter, prey))
        for side in sides
        for hunter in hunters
    )
    me = sub((0, 0), prey)
    taken: set[Cell] = set()
    placed: set[Cell] = set()
    for _, side, hunter in pairs:
        if side in taken or hunter in placed:
            continue
        if hunter == me:
            return add(side, prey)
        taken.add(side)
        placed.add(hunter)
    return None


def _path(window: Sequence[str], target: Cell) -> str | None:
    """Return the first move of a shortest way inside the window around agents and prey."""
    if target == (0, 0):
        return None
    reached: dict[Cell, str] = {}
    ring: list[tuple[Cell, str]] = [((0, 0), "")]
    half = len(window) // 2
    while ring:
        following = []
        for cell, first in ring:
            for name in MOVE_NAMES:
                nxt = add(cell, STEP[name])
                if nxt in reached or nxt == (0, 0) or max(map(abs, nxt)) > half + 1:
                    continue
                if at(window, nxt) not in ".?":
                    continue
                reached[nxt] = first or name
                if nxt == target:
                    return reached[nxt]
                following.append((nxt, first or name))
        ring = following
    return None


def approach(window: Sequence[str], offset: Cell, draw: int) -> str:
    """Step towards a far cell along the longer axis, around what stands in the way."""
    i, j = offset
    moves = []
    if i:
        moves.append((abs(i), "DOWN" if i > 0 else "UP"))
    if j:
        moves.append((abs(j), "RIGHT" if j > 0 else "LEFT"))
    moves.sort(key=lambda entry: (-entry[0], (draw >> (len(entry[1]))) & 1))
    for _, name in moves:
        if at(window, STEP[name]) == ".":
            return name
    for _, name in moves:
        if at(window, STEP[name]) not in BLOCKED | {"P"}:
            return name
    return "STAY"


def sweep(memory: Memory, window: Sequence[str], draw: int) -> str:
    """Keep a heading until a wall comes into the window ahead or a jam stops it, then draw one."""
    heading = memory.heading
    jammed = memory.still > 0 or (heading is not None and _jammed(window, heading))
    if heading is None or jammed or _faces_wall(window, heading):
        free = [h for h in _HEADINGS if not _faces_wall(window, h) and not _jammed(window, h)]
        if heading is not None and not jammed:
            back = (-heading[0], -heading[1])
            free = [h for h in free if h != back] or free
        heading = free[draw % len(free)] if free else _HEADINGS[draw % len(_HEADINGS)]
        memory.heading = heading
    far = (9 * heading[0], 9 * heading[1])
    if heading[0] and heading[1]:
        # A slanted heading is walked as a staircase.
        far = (far[0], 0) if memory.clock % 2 else (0, far[1])
    return approach(window, far, draw)


def _faces_wall(window: Sequence[str], heading: Cell) -> bool:
    """Whether the window already shows terrain two cells ahead on an axis of the heading."""
    ahead = [(2 * heading[0], 0), (0, 2 * heading[1])]
    return any(at(window, offset) in BLOCKED for offset in ahead if offset != (0, 0))


def _jammed(window: Sequence[str], heading: Cell) -> bool:
    """Whether another agent stands in every first step of a heading."""
    steps = [(heading[0], 0), (0, heading[1])]
    return all(at(window, step) != "." for step in steps if step != (0, 0))


def guess(memory: Memory, site: Site) -> Site:
    """Guess that a prey that left its place fled straight on from here."""
    offset = sub(site.cell, memory.here)
    away = [LEAD * ((x > 0) - (x < 0)) for x in offset]
    return Site(add(site.cell, (away[0], away[1])), memory.clock, site.claim)


def is_warm(memory: Memory, trail: Site) -> bool:
    """Whether a trail is fresh and not yet walked to its end."""
    return memory.age(trail) <= CHASE and taxi(trail.cell, memory.here) > 1


def search(memory: Memory, window: Sequence[str], site: Site, draw: int) -> str:
    """Walk around a place: outward while near it, back towards it once far."""
    offset = sub(site.cell, memory.here)
    if max(abs(offset[0]), abs(offset[1])) > RADIUS:
        return approach(window, offset, draw)
    return sweep(memory, window, draw)
