"""The proposal of Foraging: fetch from the food, bring to the nest, along the winding way.

What is wanted (food when empty-handed, nest when carrying) is walked to if its place is known. If
only the other site is, what is wanted lies at the other end of the way; if neither is, the agent
follows the way in the direction of its lot. A pure function of the agent's windows and private
memory; the private proposal passes only what own eyes saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waggle.substrates.swarmbench.agent.compass import found, reach, sub
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.agent.navigate import frontier, step_to
from waggle.substrates.swarmbench.tasks import hunt, winding
from waggle.substrates.swarmbench.tasks.lanes import Lanes

_OTHERS = {"food": "A", "nest": "a"}
"""Kind of site wanted -> those who have been there and come the other way."""
_CROWDED = 7
"""Others in sight from which on one stays back until the site is in reach."""
_PATIENCE = 1
"""Rounds without a step after which one who wants in lets others out."""


def wanted(carrying: bool) -> str:
    """Return the kind of site an agent needs now."""
    return "nest" if carrying else "food"


def move(
    memory: Memory,
    lanes: Lanes,
    window: Sequence[str],
    kind: str,
    sites: Mapping[str, Site],
    draw: int,
) -> str:
    """Return the move of a forager that wants one kind of site and knows some."""
    crowd = frozenset(found(window, "Aa"))
    site = sites.get(kind)
    if site is not None and _is_near(memory, lanes, site):
        waits = len(crowd) >= _CROWDED and reach(site.cell, memory.here) > len(window) // 2
        if memory.still > _PATIENCE or waits:
            return winding.give_way(memory, site, crowd, draw)
        if lanes.axis is not None and any(_OTHERS[kind] in row for row in window):
            steps = winding.file_in(memory, lanes, site)
            step = winding.take(memory, steps, crowd, 0)
            if step is not None:
                return step
        step = step_to(memory, site.cell, crowd, draw)
        if step is not None:
            return step
    if lanes.axis is None:
        others = [other for name, other in sites.items() if name != kind]
        steps = winding.feel(memory, lanes, others[0] if others else None)
    else:
        side = _side(memory, lanes, kind, sites)
        yields = kind == "food" and any("A" in row for row in window)
        steps = winding.onward(memory, lanes, side, list(sites.values()), yields)
    step = winding.take(memory, steps, crowd, draw)
    if step is not None:
        return step
    return explore(memory, window, draw)


def _is_near(memory: Memory, lanes: Lanes, site: Site) -> bool:
    """Whether a told site can be walked to straight: no line between, or none known at all."""
    axis = lanes.axis
    if axis is None:
        return True
    here, there = memory.here[axis], site.cell[axis]
    if lanes.between(here, there):
        return False
    line = lanes.line(here, 1 if there > here else -1)
    return abs(there - here) <= 2 or line is not None


def _side(memory: Memory, lanes: Lanes, kind: str, sites: Mapping[str, Site]) -> int | None:
    """Return the side across the walls to make for, or None."""
    assert lanes.axis is not None
    for known, site in sites.items():
        if known == kind:
            return 1 if site.cell[lanes.axis] > memory.here[lanes.axis] else -1
    for site in sites.values():
        return winding.away_from(lanes, memory.here, site)
    return lanes.crossed


def explore(memory: Memory, window: Sequence[str], draw: int) -> str:
    """Walk to the nearest unseen place, in line with the heading where there is a choice."""
    crowd = frozenset(found(window, "Aa"))
    goal = frontier(memory, draw)
    if goal is not None:
        step = step_to(memory, goal, crowd, draw)
        if step is not None:
            offset = sub(goal, memory.here)
            memory.heading = _sign(offset)
            return step
    return hunt.sweep(memory, window, draw)


def _sign(offset: tuple[int, int]) -> tuple[int, int]:
    i, j = offset
    return (i > 0) - (i < 0), (j > 0) - (j < 0)
