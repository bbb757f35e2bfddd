"""Pursuit: capture, respawn and the two-step flight of the prey (spec section 7.1).

Danger counts agents plus 0.9 per wall in an off-centre 8x8 block, computed as the double
`agents + walls * 0.9` because ties depend on it. Invariant: draws come from the level's own
generator in the release's order, so a seeded episode replays through every respawn.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from waggle.substrates.swarmbench.sim.config import Cell, WorldConfig
from waggle.substrates.swarmbench.sim.errors import LevelError
from waggle.substrates.swarmbench.sim.level import WALL, Level
from waggle.substrates.swarmbench.sim.physics import FIXED, FREE, Physics

_BACK, _AHEAD = 4, 4
"""The block covers rows a-4 .. a+3 and columns b-4 .. b+3, clipped to the map."""
_STEPS: tuple[Cell, ...] = ((0, 1), (0, -1), (1, 0), (-1, 0))
"""RIGHT, LEFT, DOWN, UP: the order in which the prey compares flights."""


class Pursuit:
    """Surround the prey; one point per capture."""

    done = False

    def __init__(self, config: WorldConfig, level: Level, physics: Physics) -> None:
        if level.prey is None:
            raise LevelError("a Pursuit level needs a prey; add it to the stored bodies")
        self.score: float = level.score
        self.captures = 0
        self._n = config.num_agents
        self._h, self._w = config.height, config.width
        self._physics = physics
        self._rng = level.rng
        walls = [[symbol == WALL for symbol in row] for row in level.terrain]
        self._walls = _block_sums(np.array(walls, dtype=np.int64)) * 0.9
        self._body: int | None = None
        self._cell = physics.index(level.prey.pos)
        if level.prey.movable:
            self._body = physics.add_body(level.prey.pos, level.prey.mass)
        else:
            physics.cells[self._cell] = FIXED

    @property
    def prey(self) -> Cell:
        """Where the prey is."""
        return self._physics.cell(self._here())

    @property
    def static(self) -> bool:
        """Whether agents can no longer push the prey (every prey but the first)."""
        return self._body is None

    def _here(self) -> int:
        return self._cell if self._body is None else self._physics.pos[self._body]

    def place(self, cell: Cell) -> None:
        """Teleport the prey to an empty cell; it stays as pushable as it was."""
        c = self._physics.index(cell)
        code = self._physics.cells[self._here()]
        self._physics.cells[self._here()] = FREE
        self._physics.cells[c] = code
        self._cell = c
        if self._body is not None:
            self._physics.pos[self._body] = c

    def update(self, actions: Sequence[int], round: int) -> None:
        """Capture and respawn the prey, or let it flee."""
        cells, here = self._physics.cells, self._here()
        if all(cells[here + step] != FREE for step in self._physics.steps):
            self.score += 1
            self.captures += 1
            self._respawn(here)
        else:
            self._flee(here)

    def _danger(self) -> NDArray[np.float64]:
        """Danger of every cell, on the grid after the agents moved."""
        stride = self._physics.stride
        flat = np.zeros(len(self._physics.cells), dtype=np.int64)
        flat[self._physics.pos[: self._n]] = 1
        start = self._physics.index((0, 0))
        grid = flat[start : start + self._h * stride].reshape(self._h, stride)[:, : self._w]
        danger: NDArray[np.float64] = _block_sums(grid) + self._walls
        return danger

    def _flee(self, here: int) -> None:
        """Take the least dangerous legal pair of steps if it beats the cell to the left."""
        cells, stride = self._physics.cells, self._physics.stride
        flights = [di * stride + dj for di, dj in _STEPS]
        ends = [
            here + p + q
            for p in flights
            for q in flights
            if cells[here + p] == cells[here + q] == cells[here + p + q] == FREE
        ]
        if not ends:
            return
        danger = self._danger()
        i, j = self._physics.cell(here)
        threshold = danger[i, j - 1]
        best = None
        for end in ends:
            value = danger[self._physics.cell(end)]
            if value < threshold:
                best, threshold = end, value
        if best is not None:
            self.place(self._physics.cell(best))

    def _respawn(self, here: int) -> None:
        """Replace the captured prey by an immovable one on the safest of H*W drawn cells."""
        self._physics.cells[here] = FREE
        if self._body is not None:
            self._physics.pos.pop()
            self._physics.rest.pop()
            self._body = None
        self._cell = self._physics.index(self._safest(self._danger()))
        self._physics.cells[self._cell] = FIXED

    def _safest(self, danger: NDArray[np.float64]) -> Cell:
        h, w, cells = self._h, self._w, self._physics.cells
        free = [[cells[self._physics.index((i, j))] == FREE for j in range(w)] for i in range(h)]
        if not any(any(row[1:-1]) for row in free[1:-1]):
            raise LevelError("no empty cell is left for the next prey; use a larger map")
        table = danger.tolist()
        best: Cell | None = None
        lowest = float("inf")
        drawn = 0
        while drawn < h * w:
            a = 1 + _below(self._rng, h - 2)
            b = 1 + _below(self._rng, w - 2)
            if free[a][b]:
                drawn += 1
                if table[a][b] < lowest:
                    best, lowest = (a, b), table[a][b]
        assert best is not None
        return best

    def state(self) -> dict[str, object]:
        """Where the prey is and whether it is immovable."""
        return {"prey": list(self.prey), "prey_static": self.static}

    def extra(self, agent: int) -> Mapping[str, object]:
        """The public score."""
        return {"score": int(self.score)}

    def dimmed(self, agent: int) -> bool:
        """Never."""
        return False


def _below(rng: random.Random, n: int) -> int:
    """Draw from 0..n-1 exactly as `randint` does, without its argument checks."""
    bits = n.bit_length()
    value = rng.getrandbits(bits)
    while value >= n:
        value = rng.getrandbits(bits)
    return value


def _block_sums(grid: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum the off-centre block around every cell with one integral image."""
    h, w = grid.shape
    integral = np.zeros((h + 1, w + 1), dtype=np.int64)
    grid.cumsum(axis=0).cumsum(axis=1, out=integral[1:, 1:])
    top = np.maximum(np.arange(h) - _BACK, 0)
    bottom = np.minimum(np.arange(h) + _AHEAD, h)
    left = np.maximum(np.arange(w) - _BACK, 0)
    right = np.minimum(np.arange(w) + _AHEAD, w)
    bands = integral[bottom] - integral[top]
    sums: NDArray[np.int64] = bands[:, right] - bands[:, left]
    return sums
