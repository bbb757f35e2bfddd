"""Walking a winding way of lanes: towards one end of it, past others, without a detour.

The way from one end to the other leads through every lane from gap to gap, so a walker keeps to the
wall it means to pass, sees its open end in time and turns closely around it; walkers of opposite
directions keep to opposite walls. Pure functions of the private map.
"""

from __future__ import annotations

from collections.abc import Iterable

from waggle.substrates.swarmbench.agent.compass import MOVE_NAMES, STEP, add, taxi
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.tasks.lanes import Gap, Lanes

_NAME = {STEP[name]: name for name in MOVE_NAMES}
_IN_SIGHT = 3
"""How far from the map's edge a site in its corner is seen."""
_SAME_LANE = 6
"""How far from the line that closes its lane a site lies at most."""


def away_from(lanes: Lanes, here: Cell, site: Site) -> int | None:
    """Return the side across the walls that leads away from a site at one end of the way."""
    assert lanes.axis is not None
    across, there = here[lanes.axis], site.cell[lanes.axis]
    if lanes.between(across, there) or across in lanes.lines[lanes.axis]:
        return 1 if across > there else -1
    edge = lanes.edge_side(across)
    if edge is not None:
        return -edge
    for side in (1, -1):
        if lanes.gap(lanes.line(across, side)) is not None:
            return side
    return lanes.crossed if abs(across - there) <= 2 else (1 if across > there else -1)


def lies_at_mouth(lanes: Lanes, sites: Iterable[Site]) -> bool | None:
    """Whether sites lie where their lane opens (or at its closed end); both lie alike."""
    assert lanes.axis is not None
    gaps = lanes.gaps[lanes.axis]
    for site in sites:
        across, along = site.cell[lanes.axis], site.cell[1 - lanes.axis]
        line = min(gaps, key=lambda line: abs(line - across), default=None)
        if line is not None and abs(line - across) <= _SAME_LANE:
            return gaps[line].spans(along)
    return None


def onward(
    memory: Memory, lanes: Lanes, side: int | None, sites: list[Site], yields: bool
) -> list[Cell]:
    """Return the steps that lead on along the way, the preferred one first.

    Args:
        memory: the private map.
        lanes: what is known of the lanes; their axis must be.
        side: the side across the walls to make for; None: wherever the lane leads.
        sites: sites known.
        yields: whether to turn widely around the end of a wall and leave the inside to others.
    """
    assert lanes.axis is not None
    if side is None:
        steps = _drift(memory, lanes, yields)
    else:
        steps = _make_for(memory, lanes, side, sites, yields)
    return [step if lanes.axis == 0 else (step[1], step[0]) for step in steps]


def feel(memory: Memory, lanes: Lanes, away: Site | None) -> list[Cell]:
    """Return the steps that find the walls: up to a line in sight, else slantwise over the map."""
    ways = list(lanes.lots)
    for axis in (0, 1):
        here = memory.here[axis]
        for side in (1, -1):
            if here + 2 * side in lanes.lines[axis] and (axis, side) not in lanes.border:
                return [(side, 0) if axis == 0 else (0, side)]
        if away is not None and away.cell[axis] != here:
            ways[axis] = 1 if here > away.cell[axis] else -1
    steps = [(ways[0], 0), (0, ways[1])]
    return steps if memory.clock % 2 else steps[::-1]


def _drift(memory: Memory, lanes: Lanes, yields: bool) -> list[Cell]:
    """Walk along the lane by lot, in the middle, and out of it where it opens.

    One of the two sites is in a corner of the last lane, so that is not left before.
    """
    assert lanes.axis is not None
    across, along = memory.here[lanes.axis], memory.here[1 - lanes.axis]
    edge = lanes.edge_side(across)
    if edge is not None:
        mouth = lanes.gap(lanes.line(across, -edge))
        return _search(memory, lanes, edge, lanes.lot if mouth is None else -mouth.side)
    sides = {side: lanes.line(across, side) for side in (1, -1)}
    for side, line in sides.items():
        gap = lanes.gap(line)
        if gap is not None and line is not None and (gap.side == lanes.lot or gap.spans(along)):
            return _pass(line, gap, side, across, along, yields)
    unknown = [side for side, line in sides.items() if line is None]
    if len(unknown) == 1:
        return [(unknown[0], 0), (0, lanes.lot)]
    return [(0, lanes.lot)]


def _search(memory: Memory, lanes: Lanes, edge: int, first: int) -> list[Cell]:
    """Look into the corners of the last lane, one after the other."""
    assert lanes.axis is not None
    across, along = memory.here[lanes.axis], memory.here[1 - lanes.axis]
    line = lanes.line(across, edge)
    assert line is not None
    end = lanes.end(along, first)
    if end is not None:
        corner = (line - edge, end - first)
        if (corner if lanes.axis == 0 else (corner[1], corner[0])) in memory.known:
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
    hug = [(side, 0)] if abs(line - across) > 1 else []
    return [*hug, (0, gap.side)]


def _make_for(
    memory: Memory, lanes: Lanes, side: int, sites: list[Site], yields: bool
) -> list[Cell]:
    assert lanes.axis is not None
    across, along = memory.here[lanes.axis], memory.here[1 - lanes.axis]
    line = lanes.line(across, side)
    if line is None:
        return [(side, 0)]
    gap = lanes.gap(line)
    if gap is not None:
        return _pass(line, gap, side, across, along, yields)
    if lanes.edge_side(across) == side:
        mouth = lanes.gap(lanes.line(across, -side))
        first = lanes.lot if mouth is None else mouth.side
        if mouth is not None and lies_at_mouth(lanes, sites) is False:
            first = -first
        return _search(memory, lanes, side, first)
    hug = [(side, 0)] if abs(line - across) > 1 else []
    return [*hug, (0, _guess(lanes, side, across, along, sites))]


def file_in(memory: Memory, lanes: Lanes, site: Site) -> list[Cell]:
    """Return the steps to a site in the last lane that keep to the map's edge."""
    assert lanes.axis is not None
    across, along = memory.here[lanes.axis], memory.here[1 - lanes.axis]
    edge = lanes.edge_side(across)
    there = site.cell[1 - lanes.axis]
    if edge is None or along == there:
        return []
    line = lanes.line(across, edge)
    hug = [(edge, 0)] if line is not None and abs(line - across) > 1 else []
    steps = [*hug, (0, 1 if there > along else -1)]
    return [step if lanes.axis == 0 else (step[1], step[0]) for step in steps]


def give_way(memory: Memory, site: Site, crowd: frozenset[Cell], draw: int) -> str:
    """Step back from a site if there is room behind, else stand still so as to be pushed."""
    behind = [
        (draw >> (8 * k) & 0xFF, name)
        for k, (name, step) in enumerate(STEP.items())
        if taxi(add(memory.here, step), site.cell) > taxi(memory.here, site.cell)
        and step not in crowd
        and add(memory.here, step) not in memory.solid
    ]
    return min(behind)[1] if behind else "STAY"


def _guess(lanes: Lanes, side: int, across: int, along: int, sites: list[Site]) -> int:
    """Guess where the line on a side is open: opposite to the last one, away from a corner."""
    assert lanes.axis is not None
    behind = lanes.gap(lanes.line(across, -side))
    if behind is not None:
        return -behind.side
    for site in sites:
        if not lanes.between(across, site.cell[lanes.axis]):
            turn = 1 if along > site.cell[1 - lanes.axis] else -1
            return turn if lanes.end(along, turn) is None else -turn
    return lanes.lot


def take(memory: Memory, steps: list[Cell], crowd: frozenset[Cell], draw: int) -> str | None:
    """Take the first free step; push on behind others, and by draw step aside where that fails."""
    steps = [step for step in steps if add(memory.here, step) not in memory.solid]
    if not steps:
        return None
    free = [step for step in steps if step not in crowd]
    if free:
        return _NAME[free[0]]
    if memory.still and draw & 1:
        i, j = steps[0]
        turns = [(j, -i), (-j, i)][:: 1 - (draw & 2)]
        for step in turns:
            if step not in crowd and add(memory.here, step) not in memory.solid:
                return _NAME[step]
    return _NAME[steps[0]]
