"""The grid world of one episode: bodies, rounds and the symbol grid (spec 5 to 9).

A world is built from a seed (`from_seed`) or from any level. The observations of the official
release's agents are in `conformance` of a source checkout.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.substrates.swarmbench.sim.config import (
    Action,
    Cell,
    LevelError,
    StateError,
    WorldConfig,
)
from waggle.substrates.swarmbench.sim.levels import BOX, EMPTY, PREY, Level, generate
from waggle.substrates.swarmbench.sim.physics import FREE, Physics
from waggle.substrates.swarmbench.sim.rules import Foraging, Pursuit, Rules, Transport, rules


class GridWorld:
    """A running episode of one task."""

    def __init__(self, config: WorldConfig, level: Level) -> None:
        self.config = config
        self.n = config.num_agents
        self.round = 0
        self.terrain = list(level.terrain)
        walls = [
            (i, j)
            for i, row in enumerate(level.terrain)
            for j, symbol in enumerate(row)
            if symbol != EMPTY
        ]
        self.physics = Physics(config.height, config.width, walls, level.agents)
        if level.box is not None:
            self.physics.add_box(level.box)
        self.rules: Rules = rules(config, level, self.physics)
        self.escaped = [not self.physics.inside[c] for c in self.physics.pos[: self.n]]

    @classmethod
    def from_seed(cls, config: WorldConfig) -> GridWorld:
        """Generate the level of a configuration and open it."""
        return cls(config, generate(config))

    @property
    def score(self) -> float:
        """The task's score so far."""
        return self.rules.score

    @property
    def finished(self) -> bool:
        """Whether the episode is over: the task is done, or the rounds are used up."""
        return self.rules.done or self.round >= self.config.max_round

    @property
    def agents(self) -> list[Cell]:
        """Positions by id; an escaped agent keeps its last cell outside the map."""
        return [self.physics.cell(c) for c in self.physics.pos[: self.n]]

    def state(self) -> dict[str, object]:
        """Return the task state under the keys of the stored vectors."""
        return self.rules.state()

    def step(self, actions: Sequence[int]) -> None:
        """Play one round: physics in the order UP, DOWN, LEFT, RIGHT, then the task's rules."""
        if len(actions) != self.n:
            raise LevelError(f"{len(actions)} actions for {self.n} agents; give one per agent")
        movers: tuple[list[int], ...] = ([], [], [], [])
        for agent, action in enumerate(actions):
            if action < Action.STAY and not self.escaped[agent]:
                movers[action].append(agent)
        for direction in range(4):
            if movers[direction]:
                self.physics.push(direction, movers[direction], movers[direction ^ 1])
        self.rules.update(actions, self.round)
        if isinstance(self.rules, Transport):
            self.escaped = [not self.physics.inside[c] for c in self.physics.pos]
        self.round += 1

    def relocate_prey(self, cell: Cell) -> None:
        """Teleport the prey to an empty cell between two rounds; keep whether it can be pushed.

        Raises:
            StateError: if there is no prey or the cell is not an empty cell of the map.
        """
        if not isinstance(self.rules, Pursuit):
            raise StateError(f"{self.config.task} has no prey to relocate; use Pursuit")
        if cell == self.rules.prey:
            return
        if not self.is_empty(cell):
            raise StateError(f"cannot relocate the prey to {cell}: choose an empty cell of the map")
        self.rules.place(cell)

    def relocate_food(self, terrain: Sequence[str]) -> None:
        """Replace the Foraging terrain between two rounds; every new solid cell must be empty."""
        if not isinstance(self.rules, Foraging):
            raise StateError(f"{self.config.task} has no food to relocate; use Foraging")
        fixed = [
            (self.physics.index((i, j)), symbol != EMPTY)
            for i, row in enumerate(terrain)
            for j, symbol in enumerate(row)
        ]
        if any(solid and self.physics.cells[c] > 0 for c, solid in fixed):
            raise StateError("cannot move food onto an agent; choose empty cells")
        for c, solid in fixed:
            if self.physics.cells[c] <= 0:
                self.physics.cells[c] = -1 if solid else FREE
        self.terrain = list(terrain)
        self.rules.place(self.terrain)

    def is_empty(self, cell: Cell) -> bool:
        """Return whether a cell of the map holds nothing."""
        i, j = cell
        if not (0 <= i < self.config.height and 0 <= j < self.config.width):
            return False
        return self.physics.cells[self.physics.index(cell)] == FREE

    def grid(self) -> list[str]:
        """Return the symbol grid: terrain, P, B, and agents as A or a."""
        symbols = [list(row) for row in self.terrain]
        for agent, (i, j) in enumerate(self.agents):
            if not self.escaped[agent]:
                symbols[i][j] = "a" if self.rules.dimmed(agent) else "A"
        if isinstance(self.rules, Pursuit):
            i, j = self.rules.prey
            symbols[i][j] = PREY
        for c in self.physics.box:
            if self.physics.inside[c]:
                i, j = self.physics.cell(c)
                symbols[i][j] = BOX
        return ["".join(row) for row in symbols]
