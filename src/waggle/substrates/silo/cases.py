"""Cases: the thirty tasks by id, the shards of one instance, and its hidden contact graph.

`upstream_cases` replays the benchmark's one `random.Random(42)` stream over its shipped sizes, so a
case depends on all cases before it. `independent_case` gives every (task, n, seed) its own stream,
`random.Random("silo/{task}/{n}/{seed}")`: string seeding hashes with SHA-512, so neighbouring seeds
and tasks have unrelated streams. The contact graph is random, connected and 3-regular, drawn by
the pairing model with rejection, so every labelled simple cubic graph is equally likely; nodes see
ports, never the graph. Invariant: a case is a pure function of its stream.
"""

import copyreg
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from waggle.core.errors import ConfigError
from waggle.substrates.silo.level_i import LEVEL_I
from waggle.substrates.silo.level_ii import LEVEL_II
from waggle.substrates.silo.level_iii import LEVEL_III
from waggle.substrates.silo.task import Setting, Task

TASKS: dict[str, Task] = {task.id: task for task in (*LEVEL_I, *LEVEL_II, *LEVEL_III)}
"""The thirty tasks in the order in which the upstream generator draws them."""
UPSTREAM_SEED = 42
UPSTREAM_SIZES = (2, 5, 10, 20, 50, 100)
MAX_AGENTS = 1024
DEGREE = 3
Graph = tuple[tuple[int, ...], ...]
"""Neighbours of every node, in the node's own random port order."""


def find_task(task_id: str) -> Task:
    """Return the task of that id.

    Raises:
        ConfigError: for an unknown id; the message lists the valid ones.
    """
    task = TASKS.get(task_id)
    if task is None:
        raise ConfigError(
            f"Silo task {task_id!r} not found; use I-01 to I-10, II-11 to II-20 or III-21 to III-30"
        )
    return task


# A task holds lambdas, which cannot be pickled; its id is pickled instead.
copyreg.pickle(Task, lambda task: (find_task, (task.id,)))


@dataclass(frozen=True)
class Case:
    """One instance: the shard of every position, and the public parameters."""

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
        """Return what `position` answers when it holds the shards in the bitmask `known`."""
        parts = {p: part for p, part in enumerate(self.summaries) if known >> p & 1}
        return self.task.combine(parts, position, self.setting)

    def is_right(self, known: int, position: int) -> bool:
        """Return whether the answer of `position` based on `known` equals its gold."""
        needs = self.task.needs(position, self.setting.n)
        return known & needs == needs or bool(self.answer(known, position) == self.golds[position])


def draw_case(task: Task, n: int, rng: Random) -> Case:
    """Draw a case of `task` for `n` agents from `rng`, in the upstream draw order."""
    if not 2 <= n <= MAX_AGENTS:
        raise ConfigError(f"Silo needs 2 to {MAX_AGENTS} agents, not {n}; change the agent count")
    drawn = task.draw(rng, n)
    return Case(task, Setting(n, drawn.public), tuple(drawn.shards))


def independent_case(task_id: str, n: int, seed: int) -> Case:
    """Return the case of (task, n, seed), drawn from a stream that belongs to it alone."""
    return draw_case(find_task(task_id), n, Random(f"silo/{task_id}/{n}/{seed}"))


def upstream_cases(up_to: int = UPSTREAM_SIZES[-1]) -> Iterator[Case]:
    """Yield the shipped instances in stream order, for all shipped sizes not above `up_to`."""
    rng = Random(UPSTREAM_SEED)
    for n in UPSTREAM_SIZES:
        if n > up_to:
            return
        for task in TASKS.values():
            yield draw_case(task, n, rng)


def episode_graph(task_id: str, n: int, seed: int) -> Graph:
    """Return the contact graph of (task, n, seed), shared by episodes and ceilings."""
    return contact_graph(n, Random(f"silo/graph/{task_id}/{n}/{seed}"))


def contact_graph(n: int, rng: Random) -> Graph:
    """Return a random connected 3-regular graph on `n` nodes."""
    if n < DEGREE + 1 or n % 2:
        raise ConfigError(
            f"Silo's contact graph is 3-regular: use an even agent count of at least 4, not {n}"
        )
    while True:
        ports = _pair_stubs(n, rng)
        if ports and _connected(ports):
            for own in ports:
                rng.shuffle(own)
            return tuple(tuple(own) for own in ports)


def _pair_stubs(n: int, rng: Random) -> list[list[int]]:
    """Try the pairing model once; return nothing if it made a loop or a double edge."""
    stubs = list(range(n)) * DEGREE
    rng.shuffle(stubs)
    ports: list[list[int]] = [[] for _ in range(n)]
    for u, v in zip(stubs[::2], stubs[1::2], strict=True):
        if u == v or v in ports[u]:
            return []
        ports[u].append(v)
        ports[v].append(u)
    return ports


def _connected(ports: list[list[int]]) -> bool:
    seen = frontier = {0}
    while frontier:
        frontier = {v for u in frontier for v in ports[u]} - seen
        seen = seen | frontier
    return len(seen) == len(ports)
