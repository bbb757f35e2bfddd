"""Distance of a flock from its target outline, exact and fast (spec section 7.4).

The minimum over translations of a Manhattan assignment is bounded from below by the two
one-dimensional matchings of rows and of columns, which separate: `D(dy, dx) >= f(dy) + g(dx)`.
Translations are solved in order of that bound until it reaches the best value found, so usually
one to three assignments are solved. Invariant: the value is the exact minimum, an integer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from waggle.substrates.swarmbench.sim.config import Cell

_Ints = NDArray[np.int64]


def outline(num_agents: int) -> list[Cell]:
    """Return the target: the perimeter of a square of side N // 4 + 1."""
    side = num_agents // 4 + 1
    last = side - 1
    return [(i, j) for i in range(side) for j in range(side) if i in (0, last) or j in (0, last)]


class FlockDistance:
    """Distance to one target shape, for any agent positions."""

    def __init__(self, target: list[Cell]) -> None:
        self.target = np.array(target, dtype=np.int64).reshape(-1, 2)
        self._sorted = np.sort(self.target, axis=0)

    def __call__(self, agents: list[Cell]) -> int:
        """Return the distance: the least cost over all translations that touch an agent."""
        points = np.array(agents, dtype=np.int64).reshape(-1, 2)
        ordered = np.sort(points, axis=0)
        rows, row_bound = self._axis(ordered[:, 0], 0)
        columns, column_bound = self._axis(ordered[:, 1], 1)
        bounds = row_bound[:, None] + column_bound[None, :]
        best: int | None = None
        while True:
            k = int(bounds.argmin())
            i, j = divmod(k, len(columns))
            if best is not None and bounds[i, j] >= best:
                return best
            bounds[i, j] = np.iinfo(np.int64).max
            cost = self._cost(points, int(rows[i]), int(columns[j]))
            if cost is not None and (best is None or cost < best):
                best = cost

    def _axis(self, points: _Ints, axis: int) -> tuple[_Ints, _Ints]:
        """Return the shifts along one axis that could touch an agent, and each one's bound."""
        target = self._sorted[:, axis]
        shifts = np.arange(points[0] - target[-1], points[-1] - target[0] + 1)
        return shifts, _line_matching(points, target, shifts)

    def _cost(self, points: _Ints, dy: int, dx: int) -> int | None:
        """Solve the assignment at one translation; None if no target cell is on an agent."""
        rows = np.abs(points[:, None, 0] - (self.target[None, :, 0] + dy))
        costs = rows + np.abs(points[:, None, 1] - (self.target[None, :, 1] + dx))
        if costs.min() > 0:
            return None
        picked = linear_sum_assignment(costs)
        return int(costs[picked].sum())


def _line_matching(points: _Ints, target: _Ints, shifts: _Ints) -> _Ints:
    """Least cost of matching sorted numbers on a line, per shift; the larger side has spares.

    With equal counts the sorted order is optimal. Otherwise `least[k]` is the least cost with `k`
    of the spares skipped so far.
    """
    if len(points) == len(target):
        gaps: _Ints = np.abs((points - target)[None, :] - shifts[:, None]).sum(axis=1)
        return gaps
    few, many, sign = (target, points, -1) if len(points) > len(target) else (points, target, 1)
    spare = len(many) - len(few)
    least = [np.zeros_like(shifts) for _ in range(spare + 1)]
    for m, value in enumerate(few):
        for k in range(spare + 1):
            matched = least[k] + np.abs(many[m + k] - value + sign * shifts)
            least[k] = matched if k == 0 else np.minimum(matched, least[k - 1])
    return least[spare]
