"""The five tasks: their rules after the physics of a round, and their scores (spec section 7).

Each task owns its state and its score; the world owns the bodies. Invariant: `update` runs once per
round on the positions after the move, in id order, before the round is counted. Pursuit draws from
the level's own generator in the official order, so a seeded episode replays every respawn exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from waggle.substrates.swarmbench.sim.config import MOVES, Action, Cell, LevelError, WorldConfig
from waggle.substrates.swarmbench.sim.levels import FOOD, NEST, WALL, Level
from waggle.substrates.swarmbench.sim.physics import FIXED, FREE, Physics

_Ints = NDArray[np.int64]
_BACK, _AHEAD = 4, 4
"""The danger block covers rows a-4 to a+3 and columns b-4 to b+3, clipped to the map."""
_STEPS: tuple[Cell, ...] = ((0, 1), (0, -1), (1, 0), (-1, 0))
"""RIGHT, LEFT, DOWN, UP: the order in which the prey compares its steps."""


class Rules:
    """The interface of a task to the world."""

    score: float
    done = False

    def update(self, actions: Sequence[int], round: int) -> None:
        """Apply the task's rules after the physics of a round."""
        raise NotImplementedError

    def state(self) -> dict[str, object]:
        """Return the task state under the keys of the stored vectors."""
        raise NotImplementedError

    def dimmed(self, agent: int) -> bool:
        """Return whether the agent's symbol is `a` (light off, empty-handed) instead of `A`."""
        return False


class Synchronization(Rules):
    """All lights on, then all lights off, in turn: one point each time."""

    def __init__(self, config: WorldConfig, level: Level, physics: Physics) -> None:
        self.lights = list(level.lit)
        self.last_unison = level.last_unison
        self.score = level.score
        self.swung = 0.0
        """Accumulated net switching: a round in which all lights go on or all go off counts 1."""

    def update(self, actions: Sequence[int], round: int) -> None:
        """Flip the switched lights, then look for a unison that differs from the last one."""
        lights = self.lights
        before = sum(lights)
        for agent, action in enumerate(actions):
            if action == Action.SWITCH:
                lights[agent] = not lights[agent]
        lit = sum(lights)
        self.swung += abs(lit - before) / len(lights)
        if lit in (0, len(lights)) and lit != self.last_unison:
            self.score += 1
            self.last_unison = lit

    def state(self) -> dict[str, object]:
        """Return the lights and the last scored unison."""
        return {"lights": [int(on) for on in self.lights], "last_unison": self.last_unison}

    def dimmed(self, agent: int) -> bool:
        """Return whether the light is off."""
        return not self.lights[agent]


class Foraging(Rules):
    """Carry food from its source to the nest; one point per delivery."""

    def __init__(self, config: WorldConfig, level: Level, physics: Physics) -> None:
        self.carrying = list(level.lit)
        self.score = level.score
        self.brought = [0] * len(self.carrying)
        """Number of pieces that each agent has brought home."""
        self._config = config
        self._physics = physics
        self.place(level.terrain)

    def place(self, terrain: Sequence[str]) -> None:
        """Read the cells beside food and nest from the terrain."""
        self._near_food = self._beside(terrain, FOOD)
        self._near_nest = self._beside(terrain, NEST)

    def _beside(self, terrain: Sequence[str], symbol: str) -> set[int]:
        """Return the cells with an orthogonal neighbour of that symbol.

        The release compares the neighbour's row with the width and its column with the height, so
        on elongated maps neighbours outside that swapped range do not count.
        """
        side = min(self._config.height, self._config.width)
        return {
            self._physics.index((i + a, j + b))
            for i in range(side)
            for j in range(side)
            if terrain[i][j] == symbol
            for a, b in MOVES
        }

    def update(self, actions: Sequence[int], round: int) -> None:
        """Pick up next to food, then drop and score next to the nest."""
        carrying = self.carrying
        pos = self._physics.pos
        for agent in range(len(carrying)):
            c = pos[agent]
            if c in self._near_food:
                carrying[agent] = True
            if c in self._near_nest:
                self.score += carrying[agent]
                self.brought[agent] += carrying[agent]
                carrying[agent] = False

    def state(self) -> dict[str, object]:
        """Return which agents carry food."""
        return {"carrying": [int(carries) for carries in self.carrying]}

    def dimmed(self, agent: int) -> bool:
        """Return whether the agent is empty-handed."""
        return not self.carrying[agent]


class Transport(Rules):
    """Push the box out of the way and leave; an early escape is worth more."""

    def __init__(self, config: WorldConfig, level: Level, physics: Physics) -> None:
        self._physics = physics
        self._max_round = config.max_round
        self._inside = [bool(physics.inside[c]) for c in physics.pos]
        self.score = level.score

    def update(self, actions: Sequence[int], round: int) -> None:
        """Score agents that are off the map for the first time."""
        inside, pos = self._physics.inside, self._physics.pos
        for agent, was_inside in enumerate(self._inside):
            if was_inside and not inside[pos[agent]]:
                self._inside[agent] = False
                self.score += (self._max_round - round) / self._max_round
        self.done = self.done or not any(self._inside)

    def box_pos(self) -> Cell:
        """Return the top-left cell of the box's bounding box."""
        cells = [self._physics.cell(c) for c in self._physics.box]
        return min(i for i, _ in cells), min(j for _, j in cells)

    def state(self) -> dict[str, object]:
        """Return the position of the box."""
        return {"box_pos": list(self.box_pos())}


class Pursuit(Rules):
    """Surround the prey; one point per capture (spec section 7.1).

    Danger counts agents plus 0.9 per wall in an off-centre 8x8 block, computed as the double
    `agents + walls * 0.9` because ties depend on it.
    """

    def __init__(self, config: WorldConfig, level: Level, physics: Physics) -> None:
        if level.prey is None:
            raise LevelError("a Pursuit level needs a prey; add it to the stored bodies")
        self.score = level.score
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
        """The cell of the prey."""
        return self._physics.cell(self._here())

    @property
    def static(self) -> bool:
        """Whether agents can no longer push the prey (every prey but the first)."""
        return self._body is None

    def _here(self) -> int:
        return self._cell if self._body is None else self._physics.pos[self._body]

    def place(self, cell: Cell) -> None:
        """Teleport the prey to an empty cell; keep whether it can be pushed."""
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
            self._respawn(here)
        else:
            self._flee(here)

    def _danger(self) -> NDArray[np.float64]:
        """Return the danger of every cell, on the grid after the agents moved."""
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
        steps = [di * stride + dj for di, dj in _STEPS]
        ends = [
            here + p + q
            for p in steps
            for q in steps
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
        """Return the cell of the prey and whether it is immovable."""
        return {"prey": list(self.prey), "prey_static": self.static}


def _below(rng: random.Random, n: int) -> int:
    """Draw from 0 to n-1 exactly as `randint` does, without its argument checks."""
    bits = n.bit_length()
    value = rng.getrandbits(bits)
    while value >= n:
        value = rng.getrandbits(bits)
    return value


def _block_sums(grid: _Ints) -> _Ints:
    """Sum the off-centre block around every cell with one integral image."""
    h, w = grid.shape
    integral = np.zeros((h + 1, w + 1), dtype=np.int64)
    grid.cumsum(axis=0).cumsum(axis=1, out=integral[1:, 1:])
    top = np.maximum(np.arange(h) - _BACK, 0)
    bottom = np.minimum(np.arange(h) + _AHEAD, h)
    left = np.maximum(np.arange(w) - _BACK, 0)
    right = np.minimum(np.arange(w) + _AHEAD, w)
    bands = integral[bottom] - integral[top]
    sums: _Ints = bands[:, right] - bands[:, left]
    return sums


class Flocking(Rules):
    """Form the target outline anywhere; the score is the best improvement so far."""

    def __init__(self, config: WorldConfig, level: Level, physics: Physics) -> None:
        self._physics = physics
        self._n = config.num_agents
        self._measure = FlockDistance(outline(config.num_agents))
        self.distance = self._measure(level.agents)
        stored = level.initial_distance
        self.initial_distance = self.distance if stored is None else stored
        self.score = level.score
        self.done = self.distance == 0

    def update(self, actions: Sequence[int], round: int) -> None:
        """Measure the flock's distance from the outline; the task is done at distance 0."""
        cell = self._physics.cell
        self.distance = self._measure([cell(c) for c in self._physics.pos[: self._n]])
        self.score = max(self.score, self.initial_distance - self.distance)
        self.done = self.done or self.distance == 0

    def state(self) -> dict[str, object]:
        """Return the initial and the current distance."""
        return {"initial_distance": self.initial_distance, "distance": self.distance}


def outline(num_agents: int) -> list[Cell]:
    """Return the Flocking target: the perimeter of a square of side N // 4 + 1."""
    side = num_agents // 4 + 1
    last = side - 1
    return [(i, j) for i in range(side) for j in range(side) if i in (0, last) or j in (0, last)]


class FlockDistance:
    """The exact distance of agent positions from one target shape (spec section 7.4).

    The minimum over translations of a Manhattan assignment is bounded from below by the two
    one-dimensional matchings of rows and of columns, which separate: `D(dy, dx) >= f(dy) + g(dx)`.
    Translations are solved in order of that bound until it reaches the best value found, which
    usually takes one to three assignments.
    """

    def __init__(self, target: list[Cell]) -> None:
        self.target = np.array(target, dtype=np.int64).reshape(-1, 2)
        self._sorted = np.sort(self.target, axis=0)

    def __call__(self, agents: list[Cell]) -> int:
        """Return the least cost over all translations that touch an agent."""
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
        """Return the shifts along one axis that could touch an agent, and the bound of each."""
        target = self._sorted[:, axis]
        shifts = np.arange(points[0] - target[-1], points[-1] - target[0] + 1)
        return shifts, _line_matching(points, target, shifts)

    def _cost(self, points: _Ints, dy: int, dx: int) -> int | None:
        """Solve the assignment at one translation; None if no target cell is on an agent."""
        rows = np.abs(points[:, None, 0] - (self.target[None, :, 0] + dy))
        costs = rows + np.abs(points[:, None, 1] - (self.target[None, :, 1] + dx))
        if costs.min() > 0:
            return None
        from scipy.optimize import linear_sum_assignment  # half a second to import; Flocking only

        picked = linear_sum_assignment(costs)
        return int(costs[picked].sum())


def _line_matching(points: _Ints, target: _Ints, shifts: _Ints) -> _Ints:
    """Return the least cost of matching sorted numbers on a line, for every shift.

    With equal counts the sorted order is optimal. Otherwise the larger side has spares, and
    `least[k]` is the least cost with `k` of the spares skipped so far.
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


_RULES: Mapping[str, Callable[[WorldConfig, Level, Physics], Rules]] = {
    "Pursuit": Pursuit,
    "Synchronization": Synchronization,
    "Foraging": Foraging,
    "Flocking": Flocking,
    "Transport": Transport,
}


def rules(config: WorldConfig, level: Level, physics: Physics) -> Rules:
    """Return the rules of the configured task, with the state of the level."""
    return _RULES[config.task](config, level, physics)
