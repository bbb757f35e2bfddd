"""Worlds drawn as text, for tests."""

from typing import TypeVar

import msgspec

from waggle.substrates.swarmbench.sim.config import LETTERS, Task, WorldConfig
from waggle.substrates.swarmbench.sim.stored import Initial, StoredBodies, level_of_state
from waggle.substrates.swarmbench.sim.world import GridWorld

Kind = TypeVar("Kind")


def known(thing: object, kind: type[Kind]) -> Kind:
    """Return a task's rules or behaviour as the class that they are for this task."""
    assert isinstance(thing, kind), f"{type(thing).__name__} is no {kind.__name__}"
    return thing


def drawn(picture: str, task: Task = "Flocking", prey: bool = True) -> GridWorld:
    """Open a world drawn with W . N F terrain, agents 0-9 a-z by id, P prey, B box cells."""
    rows = [line.strip() for line in picture.strip().splitlines()]
    found = {s: (i, j) for i, row in enumerate(rows) for j, s in enumerate(row)}
    agents = [found[s] for s in "0123456789abcdefghijk" if s in found]
    box = [(i, j) for i, row in enumerate(rows) for j, s in enumerate(row) if s == "B"]
    terrain = ["".join(s if s in "WNF." else "." for s in row) for row in rows]
    bodies: dict[str, object] = {}
    if box:
        top, left = min(i for i, _ in box), min(j for _, j in box)
        cells = [(i - top, j - left) for i, j in box]
        bodies["box"] = {"pos": (top, left), "cells": cells}
    if "P" in found:
        bodies["prey"] = {"pos": found["P"], "movable": prey}
    n = len(agents)
    state: dict[str, object] = {"lights": [0] * n, "carrying": [0] * n}
    config = WorldConfig(task, n, len(rows[0]), len(rows), seed=1)
    stored = msgspec.convert(bodies, StoredBodies)
    return GridWorld(config, level_of_state(config, Initial(terrain, agents, stored, 0, state)))


def play(world: GridWorld, letters: str) -> list[tuple[int, int]]:
    """Play one round of action letters and return the positions."""
    world.step([LETTERS[letter] for letter in letters])
    return world.agents
