"""The five tasks: what happens after the physics, and what is scored (spec section 7).

Each task owns its state and its score; the world owns the bodies. Invariant: `update` runs once
per round on post-move positions, in id order, with the round not yet counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from waggle.substrates.swarmbench.sim.config import MOVES, Action, Cell, WorldConfig
from waggle.substrates.swarmbench.sim.flocking import FlockDistance, outline
from waggle.substrates.swarmbench.sim.level import FOOD, NEST, Level
from waggle.substrates.swarmbench.sim.physics import Physics
from waggle.substrates.swarmbench.sim.pursuit import Pursuit


class Rules(Protocol):
    """What the world asks of a task."""

    score: float
    done: bool

    def update(self, actions: Sequence[int], round: int) -> None:
        """Apply the task's rules after the physics of a round."""
        ...

    def state(self) -> dict[str, object]:
        """Return the task state in the words of the stored vectors."""
        ...

    def extra(self, agent: int) -> Mapping[str, object]:
        """Return what this task adds to an agent's official observation."""
        ...

    def dimmed(self, agent: int) -> bool:
        """Whether the agent's symbol is `a` (light off, empty-handed) instead of `A`."""
        ...


class Synchronization:
    """Score alternating all-on and all-off unisons."""

    done = False

    def __init__(self, level: Level) -> None:
        self.lights = list(level.lit)
        self.last_unison = level.last_unison
        self.score: float = level.score

    def update(self, actions: Sequence[int], round: int) -> None:
        """Flip the switched lights, then look for a unison that differs from the last one."""
        lights = self.lights
        for agent, action in enumerate(actions):
            if action == Action.SWITCH:
                lights[agent] = not lights[agent]
        lit = sum(lights)
        if lit in (0, len(lights)) and lit != self.last_unison:
            self.score += 1
            self.last_unison = lit

    def state(self) -> dict[str, object]:
        """Lights and the last scored unison."""
        return {"lights": [int(on) for on in self.lights], "last_unison": self.last_unison}

    def extra(self, agent: int) -> Mapping[str, object]:
        """The agent's own light."""
        return {"light_on": self.lights[agent]}

    def dimmed(self, agent: int) -> bool:
        """A light that is off."""
        return not self.lights[agent]


class Foraging:
    """Carry food from its source to the nest; one point per delivery."""

    done = False

    def __init__(self, config: WorldConfig, level: Level, physics: Physics) -> None:
        self.carrying = list(level.lit)
        self.score: float = level.score
        self._config = config
        self._physics = physics
        self.place(level.terrain)

    def place(self, terrain: Sequence[str]) -> None:
        """Read where food and nest are touched from the terrain."""
        self._near_food = self._touching(terrain, FOOD)
        self._near_nest = self._touching(terrain, NEST)

    def _touching(self, terrain: Sequence[str], symbol: str) -> set[int]:
        """Cells with an orthogonal neighbour of that symbol.

        The release compares the neighbour's row with the width and its column with the height, so
        on elongated maps neighbours outside that swapped range do not count.
        """
        h, w = self._config.height, self._config.width
        touched: set[int] = set()
        for i in range(min(h, w)):
            for j in range(min(w, h)):
                if terrain[i][j] == symbol:
                    touched.update(self._physics.index((i + a, j + b)) for a, b in MOVES)
        return touched

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
                carrying[agent] = False

    def state(self) -> dict[str, object]:
        """Who carries food."""
        return {"carrying": [int(carries) for carries in self.carrying]}

    def extra(self, agent: int) -> Mapping[str, object]:
        """Whether the agent itself carries."""
        return {"carrying_food": self.carrying[agent]}

    def dimmed(self, agent: int) -> bool:
        """An empty-handed agent."""
        return not self.carrying[agent]


class Flocking:
    """Form the target outline anywhere; the score is the best improvement so far."""

    def __init__(self, config: WorldConfig, level: Level, physics: Physics) -> None:
        self._physics = physics
        self._n = config.num_agents
        self._measure = FlockDistance(outline(config.num_agents))
        self.distance = self._measure(level.agents)
        stored = level.initial_distance
        self.initial_distance = self.distance if stored is None else stored
        self.score: float = level.score
        self.done = False

    def update(self, actions: Sequence[int], round: int) -> None:
        """Measure the flock; done when it is in shape."""
        cell = self._physics.cell
        self.distance = self._measure([cell(c) for c in self._physics.pos[: self._n]])
        self.score = max(self.score, self.initial_distance - self.distance)
        self.done = self.done or self.distance == 0

    def state(self) -> dict[str, object]:
        """Distance at reset and now."""
        return {"initial_distance": self.initial_distance, "distance": self.distance}

    def extra(self, agent: int) -> Mapping[str, object]:
        """Nothing."""
        return {}

    def dimmed(self, agent: int) -> bool:
        """Never."""
        return False


class Transport:
    """Push the box out of the way and leave; an early escape is worth more."""

    def __init__(self, config: WorldConfig, level: Level, physics: Physics) -> None:
        self._physics = physics
        self._max_round = config.max_round
        self._inside = [bool(physics.inside[c]) for c in physics.pos]
        self.score: float = level.score
        self.done = False

    def update(self, actions: Sequence[int], round: int) -> None:
        """Score agents that are off the map for the first time."""
        inside, pos = self._physics.inside, self._physics.pos
        for agent, was_inside in enumerate(self._inside):
            if was_inside and not inside[pos[agent]]:
                self._inside[agent] = False
                self.score += (self._max_round - round) / self._max_round
        self.done = self.done or not any(self._inside)

    def box_pos(self) -> Cell:
        """Top-left cell of the box's bounding box."""
        cells = [self._physics.cell(c) for c in self._physics.box]
        return min(i for i, _ in cells), min(j for _, j in cells)

    def state(self) -> dict[str, object]:
        """Where the box is."""
        return {"box_pos": list(self.box_pos())}

    def extra(self, agent: int) -> Mapping[str, object]:
        """Nothing."""
        return {}

    def dimmed(self, agent: int) -> bool:
        """Never."""
        return False


def rules(config: WorldConfig, level: Level, physics: Physics) -> Rules:
    """Return the rules of the configured task, with the state of the level."""
    match config.task:
        case "Pursuit":
            return Pursuit(config, level, physics)
        case "Synchronization":
            return Synchronization(level)
        case "Foraging":
            return Foraging(config, level, physics)
        case "Flocking":
            return Flocking(config, level, physics)
        case "Transport":
            return Transport(config, level, physics)
