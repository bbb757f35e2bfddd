"""What a level is made of, whether generated from a seed or read from a stored state.

Pure data; positions are (row, column) and may lie outside the map only for agents that escaped
and for box cells in the Transport gap.
"""

from __future__ import annotations

import random
from typing import TypeAlias

import msgspec

from waggle.substrates.swarmbench.sim.config import Cell

EMPTY, WALL, NEST, FOOD, PREY, BOX = ".", "W", "N", "F", "P", "B"
Rows: TypeAlias = list[str]


class Box(msgspec.Struct, frozen=True):
    """The Transport box: top-left of its bounding box, cell offsets, mass."""

    pos: Cell
    cells: tuple[Cell, ...]
    mass: int = 5


class Prey(msgspec.Struct, frozen=True):
    """The Pursuit prey; only the first one of an episode can be pushed."""

    pos: Cell
    movable: bool = True
    mass: int = 1


class Level(msgspec.Struct, frozen=True):
    """The initial state of an episode."""

    terrain: Rows
    agents: list[Cell]
    rng: random.Random
    """Positioned right after level generation; only Pursuit draws from it later."""
    prey: Prey | None = None
    box: Box | None = None
    lit: list[bool] = []
    """Synchronization: light on. Foraging: carrying food."""
    last_unison: int = -1
    initial_distance: int | None = None
    score: float = 0
    round: int = 0
