"""SwarmBench as a substrate: `swarmbench/pursuit` and four more (adapter spec; architecture 4).

Invariant: body keys[i] of the generated level stands at node i, and every private draw is keyed by
the body, so relabelling the nodes does not change the episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from waggle.core.errors import ConfigError, suggest
from waggle.core.protocols import Case
from waggle.core.world import read_options
from waggle.substrates.swarmbench.episode import SwarmEpisode
from waggle.substrates.swarmbench.sim.config import MAX_SIDE, MIN_SIDE, TASKS, WorldConfig
from waggle.substrates.swarmbench.sim.world import GridWorld

ROUNDS = {"foraging": 200}
"""Horizons that differ from the official one. Foragers need about sixty rounds to find both sites,
so within a hundred rounds hardly any agent can use a report (`waggle bound`)."""
OFFICIAL_ROUNDS = 100
MIN_SHOCK_SIDE = 9
"""Smallest map side with two corners in different blocks, which foragers' claims name."""
_TASK_KEYS = {task.lower(): task for task in TASKS}


class SwarmBenchOptions(BaseModel):
    """Options of SwarmBench."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    map: Annotated[int, Field(ge=MIN_SIDE, le=MAX_SIDE)] | None = None
    """Side of the square map in cells. Default: 10 for up to 10 agents, 24 for more."""
    upstream_seed: bool = False
    """Flocking only: use the official release's single level (seed 42) for every seed."""


class SwarmBench:
    """The five SwarmBench tasks: agents on a grid that see five by five cells and can push."""

    name: ClassVar[str] = "swarmbench"
    tasks: ClassVar[tuple[str, ...]] = tuple(_TASK_KEYS)
    options: ClassVar[type[SwarmBenchOptions]] = SwarmBenchOptions

    def open(self, case: Case, keys: Sequence[int] | None = None) -> SwarmEpisode:
        """Build the world of a case.

        Raises:
            ConfigError: if the task, an option or a number is invalid.
        """
        if case.task not in _TASK_KEYS:
            hint = suggest(case.task, list(_TASK_KEYS))
            raise ConfigError(f"no task {case.task!r}; use one of {', '.join(_TASK_KEYS)}{hint}")
        options = read_options(SwarmBenchOptions, case)
        side = options.map or (10 if case.n <= 10 else 24)
        if case.shock and case.task == "foraging" and side < MIN_SHOCK_SIDE:
            raise ConfigError(
                f"food that moves on a map of side {side} can stay where its claim says, so that "
                f"nothing is refuted; use --swarmbench.map {MIN_SHOCK_SIDE} or more"
            )
        usual = ROUNDS.get(case.task, OFFICIAL_ROUNDS)
        rounds = usual if case.rounds is None else case.rounds
        config = WorldConfig(
            task=_TASK_KEYS[case.task],
            num_agents=case.n,
            width=side,
            height=side,
            seed=case.seed,
            max_round=rounds,
            upstream_seed=options.upstream_seed,
        )
        grid = GridWorld.from_seed(config)
        return SwarmEpisode(case, grid, range(case.n) if keys is None else keys)
