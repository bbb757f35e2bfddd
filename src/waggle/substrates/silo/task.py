"""What a Silo-Bench task is: a way to draw shards, and a gold defined on any subset of them.

Realises Silo-Bench section 2 as data. A gold is computed in two steps, `summarise` (once per shard)
and `combine` (once per known subset), so that a swarm that asks for hundreds of golds per episode
pays for each shard once. Invariant: `combine` sees summaries keyed by position in ascending order
and nothing else, so equal knowledge always gives the equal answer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, NamedTuple

Level = Literal["I", "II", "III"]


class Setting(NamedTuple):
    """What the task itself fixes: agent count and the public parameters of its statement."""

    n: int
    public: Mapping[str, Any]


class TaskDraw(NamedTuple):
    """One draw of a task: a shard per position and the public parameters."""

    shards: list[Any]
    public: dict[str, Any]


Draw = Callable[[Random, int], TaskDraw]
Summarise = Callable[[Any, Setting], Any]
Combine = Callable[[dict[int, Any], int, Setting], Any]
Needs = Callable[[int, int], int]
Renew = Callable[[Random, Any, Setting], Any]


def everything(position: int, n: int) -> int:
    """Return the bitmask of all positions: the answer needs every shard."""
    return (1 << n) - 1


def own(position: int, n: int) -> int:
    """Return the position alone: the own shard already decides the answer."""
    return 1 << position


def up_to(position: int, n: int) -> int:
    """Return this position and all before it."""
    return (2 << position) - 1


def beside(position: int, n: int) -> int:
    """Return this position and the one on either side."""
    return (0b111 << position >> 1) & ((1 << n) - 1)


@dataclass(frozen=True, slots=True)
class Task:
    """One row of the registry: everything the benchmark says about a task."""

    id: str
    name: str
    level: Level
    asks: str
    """The question as a node reads it: no population size, no lengths, no topology."""
    draw: Draw
    summarise: Summarise
    combine: Combine
    segmented: bool = False
    """Whether every position has an answer of its own."""
    needs: Needs = everything
    settled: Callable[[Iterable[Any]], bool] = lambda parts: False
    """Whether these summaries decide the answer although positions are missing."""
    renew: Renew | None = None
    """A later version of a shard that makes the old answer wrong (late counterevidence)."""
    carried: Callable[[Any], Any] = lambda shard: shard
    """The part of a shard that must travel, where everybody holds the rest."""

    def golds(self, shards: Sequence[Any], setting: Setting) -> list[Any]:
        """Return the answer of every position when all shards are known."""
        parts = {p: self.summarise(shard, setting) for p, shard in enumerate(shards)}
        if self.segmented:
            return [self.combine(parts, p, setting) for p in parts]
        return [self.combine(parts, 0, setting)] * len(parts)


def split(data: Sequence[Any], n: int) -> list[Any]:
    """Return equal consecutive shards; the last one also takes the remainder."""
    chunk = len(data) // n
    return [data[i * chunk : (i + 1) * chunk] for i in range(n - 1)] + [data[(n - 1) * chunk :]]


def drawn_items(
    per_agent: int, item: Callable[[Random, int], Any], *, shuffled: bool = False
) -> Draw:
    """Return a draw of `per_agent * n` independent items, split in order."""

    def draw(rng: Random, n: int) -> TaskDraw:
        data = [item(rng, n) for _ in range(per_agent * n)]
        if shuffled:
            rng.shuffle(data)
        return TaskDraw(split(data, n), {})

    return draw


def drawn_integers(per_agent: int, low: int, high: int, *, shuffled: bool = False) -> Draw:
    """Return a draw of uniform integers, bounds included."""
    return drawn_items(per_agent, lambda rng, _: rng.randint(low, high), shuffled=shuffled)


def verbatim(shard: Any, setting: Setting) -> Any:
    """Summarise a shard whose every item matters: as it is."""
    return shard


def of_all(gold: Callable[[Iterable[Any]], Any]) -> Combine:
    """Return a gold that depends on the summaries alone, not on the position or the setting."""
    return lambda parts, position, setting: gold(parts.values())


def of_items(gold: Callable[[list[Any]], Any]) -> Combine:
    """Return a gold that depends on the joined items of the summaries alone."""
    return lambda parts, position, setting: gold([x for part in parts.values() for x in part])


def runs(parts: Mapping[int, Sequence[Any]]) -> list[list[Any]]:
    """Return the known stretches: neighbouring shards joined, gaps kept apart."""
    stretches: list[list[Any]] = []
    previous = -2
    for position, shard in parts.items():
        if position == previous + 1:
            stretches[-1].extend(shard)
        else:
            stretches.append(list(shard))
        previous = position
    return stretches
