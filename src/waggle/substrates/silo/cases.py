"""Cases of Silo-Bench tasks, and the two kinds of random stream they are drawn from.

`upstream_cases` replays the benchmark's one `random.Random(42)` stream over its shipped sizes, so a
case depends on all cases before it. `independent_case` gives every (task, n, seed) its own stream,
`random.Random("silo/{task}/{n}/{seed}")`: string seeding hashes with SHA-512, so neighbouring seeds
and different tasks share nothing. Invariant: a case is a pure function of its stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from waggle.core.errors import ConfigError
from waggle.substrates.silo.registry import TASKS, find_task
from waggle.substrates.silo.task import Setting, Task

UPSTREAM_SEED = 42
UPSTREAM_SIZES = (2, 5, 10, 20, 50, 100)
MAX_AGENTS = 1024


@dataclass(frozen=True)
class Case:
    """One instance: who holds which shard, and what everybody is told."""

    task: Task
    setting: Setting
    shards: tuple[Any, ...]

    @cached_property
    def golds(self) -> tuple[Any, ...]:
        """The right answer of every position."""
        return tuple(self.task.golds(self.shards, self.setting))

    @cached_property
    def summaries(self) -> tuple[Any, ...]:
        """The summary of every shard, in position order."""
        return tuple(self.task.summarise(shard, self.setting) for shard in self.shards)

    def answer(self, known: int, position: int) -> Any:
        """What `position` answers when it holds the shards in the bitmask `known`."""
        parts = {p: part for p, part in enumerate(self.summaries) if known >> p & 1}
        return self.task.combine(parts, position, self.setting)


def draw_case(task: Task, n: int, rng: Random) -> Case:
    """Draw a case of `task` for `n` agents from `rng`, in the upstream draw order."""
    if not 2 <= n <= MAX_AGENTS:
        raise ConfigError(f"Silo needs 2 to {MAX_AGENTS} agents, not {n}; change the agent count")
    drawn = task.draw(rng, n)
    return Case(task, Setting(n, drawn.public), tuple(drawn.shards))


def independent_case(task_id: str, n: int, seed: int) -> Case:
    """The case of (task, n, seed), drawn from a stream that belongs to it alone."""
    return draw_case(find_task(task_id), n, Random(f"silo/{task_id}/{n}/{seed}"))


def upstream_cases(up_to: int = UPSTREAM_SIZES[-1]) -> Iterator[Case]:
    """The shipped instances in stream order, for all shipped sizes not above `up_to`."""
    rng = Random(UPSTREAM_SEED)
    for n in UPSTREAM_SIZES:
        if n > up_to:
            return
        for task in TASKS.values():
            yield draw_case(task, n, rng)
