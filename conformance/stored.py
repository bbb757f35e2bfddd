"""Stored states and episodes: the file schema, and the level that a stored state describes.

Files are untrusted: `msgspec` checks their shape, `level_of_state` checks that they describe a
possible world. Invariant: every level that `level_of_state` returns can be opened and played.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from waggle.substrates.swarmbench.sim.config import Cell, StateError, Task, WorldConfig
from waggle.substrates.swarmbench.sim.levels import EMPTY, FOOD, NEST, WALL, Box, Level, Prey
from waggle.substrates.swarmbench.sim.physics import PAD
from waggle.substrates.swarmbench.sim.rules import outline

_OVERHANG = PAD - 3
"""How far outside the map a stored agent or box cell may lie."""


class StoredBodies(msgspec.Struct, frozen=True):
    """Masses, the box, the prey and the target outline."""

    agent_mass: int = 1
    agent_force: int = 2
    box: Box | None = None
    prey: Prey | None = None
    target: list[str] | None = None


class RngState(msgspec.Struct, frozen=True):
    """A Mersenne Twister state, as accepted by `random.Random.setstate`."""

    version: int
    words: list[int]
    gauss: float | None = None


class Initial(msgspec.Struct, frozen=True):
    """A stored state from which an episode can be replayed."""

    terrain: list[str]
    agents: list[Cell]
    bodies: StoredBodies
    score: float
    state: dict[str, object]
    grid: list[str] | None = None
    rng_state: RngState | None = None


class Seen(msgspec.Struct, frozen=True):
    """A recorded observation, taken before the actions of its round."""

    id: int
    pos: Cell
    view: list[str]
    heard: list[tuple[int, str]] = []
    extra: dict[str, object] = {}


class StoredRound(msgspec.Struct, frozen=True):
    """Actions and messages of a round and the state after it."""

    act: str
    agents: list[Cell]
    grid: list[str]
    score: float
    state: dict[str, object]
    obs: list[Seen] = []
    say: dict[str, str] = {}
    relocate_prey_before: Cell | None = None
    respawn: Cell | None = None


class Final(msgspec.Struct, frozen=True):
    """The end of a recorded episode: its score, length, cause and escaped agents."""

    score: float
    rounds: int
    ended: str = "cap"
    escaped: list[int] = []


class Episode(msgspec.Struct, frozen=True):
    """One recorded episode."""

    config: WorldConfig
    initial: Initial
    rounds: list[StoredRound]
    final: Final | None = None


class StoredLayout(msgspec.Struct, frozen=True):
    """One recorded level."""

    task: Task
    num_agents: int
    side: int
    seed: int
    grid: list[str]
    agents: list[Cell]
    state: dict[str, object]


def level_of_state(config: WorldConfig, initial: Initial) -> Level:
    """Return the level that a stored state describes.

    Raises:
        StateError: naming the field that is invalid.
    """
    _check_bodies(config, initial)
    rng, stored = random.Random(config.rng_seed), initial.rng_state
    if stored is not None:
        try:
            rng.setstate((stored.version, tuple(stored.words), stored.gauss))
        except (TypeError, ValueError, OverflowError) as error:
            raise StateError(f"rng_state is not a Mersenne Twister state: {error}") from None
    lit: Any = []
    key = {"Synchronization": "lights", "Foraging": "carrying"}.get(config.task)
    if key is not None:
        lit = initial.state.get(key)
        if not isinstance(lit, list) or len(lit) != config.num_agents:
            raise StateError(f"state.{key} must list one 0 or 1 per agent")
    unison = initial.state.get("last_unison", -1)
    distance = initial.state.get("initial_distance")
    return Level(
        terrain=initial.terrain,
        agents=initial.agents,
        rng=rng,
        prey=initial.bodies.prey,
        box=initial.bodies.box,
        lit=list(map(bool, lit)),
        last_unison=unison if isinstance(unison, int) else -1,
        initial_distance=distance if isinstance(distance, int) else None,
        score=int(initial.score) if initial.score == int(initial.score) else initial.score,
    )


def _check_bodies(config: WorldConfig, initial: Initial) -> None:
    h, w, bodies = config.height, config.width, initial.bodies
    if len(initial.terrain) != h or any(len(row) != w for row in initial.terrain):
        raise StateError(f"terrain is not {h} rows of {w} symbols; store the immovable layer")
    if any(set(row) - {EMPTY, WALL, NEST, FOOD} for row in initial.terrain):
        raise StateError("terrain has symbols other than . W N F; store the immovable layer")
    if (bodies.agent_mass, bodies.agent_force) != (1, 2):
        raise StateError("agents must have mass 1 and force 2")
    if len(initial.agents) != config.num_agents:
        raise StateError(f"{len(initial.agents)} agents stored; num_agents is {config.num_agents}")
    if (bodies.prey is None) == (config.task == "Pursuit"):
        raise StateError("bodies.prey must be given in Pursuit and only there")
    prey = [] if bodies.prey is None else [bodies.prey.pos]
    _check_free(config, initial.terrain, [*prey, *_box_cells(config, bodies), *initial.agents])
    rows = enumerate(bodies.target or ())
    target = [(i, j) for i, row in rows for j, symbol in enumerate(row) if symbol != EMPTY]
    if bodies.target is not None and target != outline(config.num_agents):
        raise StateError("the target must be the outline of a square of side N // 4 + 1")


def _check_free(config: WorldConfig, terrain: Sequence[str], taken: Sequence[Cell]) -> None:
    """Check that each body on the map has its own empty cell, and that others are near the map."""
    h, w = config.height, config.width
    low, seen = -_OVERHANG, set()
    for i, j in taken:
        if not (low <= i < h + _OVERHANG and low <= j < w + _OVERHANG):
            raise StateError(f"cell ({i}, {j}) is too far from the {h}x{w} map")
        if 0 <= i < h and 0 <= j < w:
            if terrain[i][j] != EMPTY or (i, j) in seen:
                raise StateError(f"cell ({i}, {j}) holds two things; one body or terrain per cell")
            seen.add((i, j))
        elif config.task != "Transport":
            raise StateError(
                f"cell ({i}, {j}) is outside the {h}x{w} map; only Transport has exits"
            )


def _box_cells(config: WorldConfig, bodies: StoredBodies) -> list[Cell]:
    """Return the cells of the box; reject holes in a row or column, which could trap a body."""
    box = bodies.box
    if (box is None) == (config.task == "Transport"):
        raise StateError("bodies.box must be given in Transport and only there")
    if box is None:
        return []
    for axis in (0, 1):
        for line in {cell[axis] for cell in box.cells}:
            along = sorted(cell[1 - axis] for cell in box.cells if cell[axis] == line)
            if along != list(range(along[0], along[0] + len(along))):
                raise StateError("the box has a hole in a row or column; use a shape without one")
    if not box.cells or box.mass < 1:
        raise StateError("the box needs cells and a mass of at least 1")
    return [(box.pos[0] + i, box.pos[1] + j) for i, j in box.cells]
