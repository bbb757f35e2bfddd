"""Speed of the world: rounds per second, next to the official environment's (issue figures).

    rows = measure()

Measures world step and scoring with random actions on one core, with and without building every
agent's view. Invariant: nothing is tuned here; the official figures are constants measured
elsewhere.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import msgspec

from conformance.observations import token_rows, window
from waggle.core import seeds
from waggle.substrates.swarmbench.sim.config import TASKS, Task, WorldConfig
from waggle.substrates.swarmbench.sim.world import GridWorld

SIDES: Mapping[int, int] = {8: 10, 16: 12, 32: 16, 64: 20}
"""Map side per number of agents."""
OFFICIAL: Mapping[Task, tuple[float, ...]] = {
    "Pursuit": (28.1, 24.1, 10.2, 5.9),
    "Synchronization": (18.4, 14.6, 7.9, 3.8),
    "Foraging": (15.9, 11.2, 8.4, 4.9),
    "Flocking": (21.0, 13.5, 7.9, 1.9),
    "Transport": (18.7, 12.7, 7.9, 5.1),
}
"""Rounds per second of the official environment on two cores without its logger, N as in SIDES."""
SPEEDUP: Mapping[Task, int] = {task: 100 if task == "Flocking" else 200 for task in TASKS}
"""Required multiple of the official rate at the largest N."""
SEED = 10_000


class Speed(msgspec.Struct, frozen=True):
    """The measurements of one task at one size."""

    task: Task
    n: int
    side: int
    rate: float
    """Rounds per second, world step and scoring."""
    viewed: float
    """Rounds per second when every agent's view is built as well."""
    official: float

    @property
    def ratio(self) -> float:
        """Rate as a multiple of the official environment's."""
        return self.rate / self.official

    @property
    def met(self) -> bool | None:
        """Whether the required speed-up is reached; None if none is required."""
        return self.ratio >= SPEEDUP[self.task] if self.n == max(SIDES) else None


def measure(
    tasks: Sequence[Task] = TASKS, sizes: Sequence[int] = tuple(SIDES), seconds: float = 1.0
) -> list[Speed]:
    """Time every task at every size, for about `seconds` per rate."""
    rows = []
    for task in tasks:
        for n in sizes:
            rate, viewed = _rate(task, n, seconds, False), _rate(task, n, seconds, True)
            official = OFFICIAL[task][list(SIDES).index(n)]
            rows.append(Speed(task, n, SIDES[n], rate, viewed, official))
    return rows


def _rate(task: Task, n: int, seconds: float, views: bool) -> float:
    """Return rounds per processor second, over episodes of 100 rounds until time is up."""
    rng = random.Random(seeds.derive(SEED, "bench", task, n))
    choices = 6 if task == "Synchronization" else 5
    played, spent, episode = 0, 0.0, 0
    while spent < seconds:
        config = WorldConfig(task, n, SIDES[n], SIDES[n], SEED + episode)
        world = GridWorld.from_seed(config)
        script = [[rng.randrange(choices) for _ in range(n)] for _ in range(100)]
        start = time.process_time()
        for actions in script:
            world.step(actions)
            if views:
                rows = token_rows(world)
                for agent in range(n):
                    window(world, rows, agent)
        spent += time.process_time() - start
        played += len(script)
        episode += 1
    return played / spent
