"""The private proposal of Foraging: fetch from food one has seen, bring to a nest one has seen.

What is wanted (food when empty-handed, nest when carrying) is walked to over the private map if
the agent has seen it itself; otherwise it explores the nearest place not yet seen. A pure function
of the agent's windows and private memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.substrates.swarmbench import hunt
from waggle.substrates.swarmbench.behaviour import Plan
from waggle.substrates.swarmbench.compass import found, sub
from waggle.substrates.swarmbench.memory import Memory
from waggle.substrates.swarmbench.navigate import frontier, step_to


def wanted(carrying: bool) -> str:
    """Return the kind of site an agent needs now."""
    return "nest" if carrying else "food"


def propose(memory: Memory, window: Sequence[str], carrying: bool, draw: int) -> Plan:
    """Return the private move of a forager."""
    crowd = frozenset(found(window, "Aa"))
    site = memory.seen.get(wanted(carrying))
    if site is not None:
        move = step_to(memory, site.cell, crowd, draw)
        if move is not None:
            return Plan(move, True)
    return Plan(explore(memory, window, draw), False)


def explore(memory: Memory, window: Sequence[str], draw: int) -> str:
    """Walk to the nearest unseen place, in line with the heading where there is a choice."""
    crowd = frozenset(found(window, "Aa"))
    goal = frontier(memory, draw)
    if goal is not None:
        move = step_to(memory, goal, crowd, draw)
        if move is not None:
            offset = sub(goal, memory.here)
            memory.heading = _sign(offset)
            return move
    return hunt.sweep(memory, window, draw)


def _sign(offset: tuple[int, int]) -> tuple[int, int]:
    i, j = offset
    return (i > 0) - (i < 0), (j > 0) - (j < 0)
