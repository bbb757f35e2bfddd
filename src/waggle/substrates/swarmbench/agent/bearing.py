"""Bearings: positions as views show them, in signed bins of cells down and right.

A bearing is all that an agent can send to another about a place, and all that a law sees of it.
Bins 0 to 2 hold one distance each, larger ones several: bin 3 is three or four cells, bin 7 more
than twenty. A reported place can be off even in the smallest bins, because the writer's step after
writing moves the cell that they count from (`Behaviour.place_of`).
Invariant: `bearing(estimate(b)) == b`, so a bearing relayed without a step in between is unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from waggle.substrates.swarmbench.sim.config import Cell

EDGES = (0, 1, 2, 4, 7, 12, 20)
"""The largest distance of every bin but the last."""
_MIDDLES = (0, 1, 2, 3, 6, 10, 16, 24)
"""The distance that stands for each bin."""


class Bearing(NamedTuple):
    """Signed bins of the cells down and right of an agent."""

    down: int
    right: int


def bearing(offset: Cell) -> Bearing:
    """Return the bins of an offset."""
    return Bearing(_bin(offset[0]), _bin(offset[1]))


def estimate(bins: Bearing) -> Cell:
    """Return the offset that stands for two bins."""
    return _middle(bins.down), _middle(bins.right)


def _bin(cells: int) -> int:
    distance = bisect_left(EDGES, abs(cells))
    return -distance if cells < 0 else distance


def _middle(signed: int) -> int:
    return -_MIDDLES[-signed] if signed < 0 else _MIDDLES[signed]
