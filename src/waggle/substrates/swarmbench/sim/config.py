"""Tasks, actions, errors and the configuration of one grid world (spec sections 1 and 5).

Invariant: every `WorldConfig` is checked on construction, so later code does not check sizes again.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, TypeAlias, get_args

import msgspec

from waggle.core.errors import ConfigError, RecordError, suggest

Task: TypeAlias = Literal["Pursuit", "Synchronization", "Foraging", "Flocking", "Transport"]
TASKS: tuple[Task, ...] = get_args(Task)
Cell: TypeAlias = tuple[int, int]
"""(row, column); rows grow downward."""

UPSTREAM_FLOCKING_SEED = 42
MIN_SIDE, MAX_SIDE = 6, 256
MAX_AGENTS = 4096
MAX_VIEW = 31
MAX_ROUNDS = 100_000


class LevelError(ConfigError):
    """Raised when a map has no room for its agents or the next prey; the release loops for ever."""


class StateError(RecordError):
    """Raised when a stored state or test vector does not follow the schema."""


class Action(IntEnum):
    """A native action; the four moves come first, opposite moves differ in the last bit."""

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3
    STAY = 4
    SWITCH = 5


MOVES: tuple[Cell, ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Row and column change of the four moves, in the order of the physics passes."""
MOVE_NAMES = ("UP", "DOWN", "LEFT", "RIGHT")
STEP: dict[str, Cell] = dict(zip(MOVE_NAMES, MOVES, strict=True))
ACTION_NAMES = (*MOVE_NAMES, "STAY")
"""The actions that every task allows, in the official order."""
LETTERS = {"U": 0, "D": 1, "L": 2, "R": 3, "S": 4, "X": 5, "-": 4}
"""Action letters of the stored vectors; `-` means no move word and acts like STAY."""


class WorldConfig(msgspec.Struct, frozen=True):
    """Everything that determines a level."""

    task: Task
    num_agents: int
    width: int
    height: int
    seed: int
    max_round: int = 100
    view_size: int = 5
    upstream_seed: bool = False
    """Flocking only: ignore the seed and use 42, as the official release does."""

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            hint = suggest(str(self.task), list(TASKS))
            raise LevelError(f"unknown task {self.task!r}; use one of {', '.join(TASKS)}{hint}")
        for name, low, high in (
            ("num_agents", 1, MAX_AGENTS),
            ("width", MIN_SIDE, MAX_SIDE),
            ("height", MIN_SIDE, MAX_SIDE),
            ("max_round", 1, MAX_ROUNDS),
            ("view_size", 1, MAX_VIEW),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise LevelError(f"{name} is {value!r}; use an integer from {low} to {high}")
        if not isinstance(self.seed, int):
            raise LevelError(f"seed is {self.seed!r}; use an integer")

    @property
    def rng_seed(self) -> int:
        """The seed of the level's generator."""
        flocks = self.task == "Flocking" and self.upstream_seed
        return UPSTREAM_FLOCKING_SEED if flocks else self.seed
