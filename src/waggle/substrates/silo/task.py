"""The definition of a Silo-Bench task: a draw of shards, and a gold for any subset of them.

Realises Silo-Bench section 2 as data. A gold is computed in two steps, `summarise` (once per shard)
and `combine` (once per known subset), so that an episode with hundreds of golds processes each
shard once. Invariant: `combine` receives only summaries keyed by position in ascending order, so
equal knowledge always gives equal answers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, NamedTuple

Level = Literal["I", "II", "III"]


class Setting(NamedTuple):
    """The fixed parameters of a task: agent count and the public parameters of its statement."""

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
Stated = Callable[[Setting], Mapping[str, Any]]


def public(setting: Setting) -> Mapping[str, Any]:
    """Return the public parameters as the benchmark names them."""
    return setting.public


def vertices(setting: Setting) -> Mapping[str, Any]:
    """Return the size of the task's graph; a key that counts nodes would mean the swarm."""
    return {"vertices": setting.public["total_nodes"]}


def everything(position: int, n: int) -> int:
    """Return the bitmask of all positions: the answer needs every shard."""
    return (1 << n) - 1


def own(position: int, n: int) -> int:
    """Return the bitmask of the position alone: its own shard already decides the answer."""
    return 1 << position


def up_to(position: int, n: int) -> int:
    """Return the bitmask of this position and all before it."""
    return (2 << position) - 1


def beside(position: int, n: int) -> int:
    """Return the bitmask of this position and the one on either side."""
    return (0b111 << position >> 1) & ((1 << n) - 1)


@dataclass(frozen=True, slots=True)
class Task:
    """One row of the registry: everything that the benchmark defines about a task."""

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
    """Return whether the given summaries decide the answer although positions are missing."""
    renew: Renew | None = None
    """Draw a later version of a shard that makes the old answer wrong (late counterevidence)."""
    carried: Callable[[Any], Any] = lambda shard: shard
    """Return the part of a shard that must be sent; every node holds the rest."""
    stated: Stated = public
    """Return what the benchmark's statement tells every agent about the whole input."""

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
    """Return the shard unchanged, for tasks in which every item matters."""
    return shard


def of_all(gold: Callable[[Iterable[Any]], Any]) -> Combine:
    """Return a `combine` that uses the summaries alone, not the position or the setting."""
    return lambda parts, position, setting: gold(parts.values())


def of_items(gold: Callable[[list[Any]], Any]) -> Combine:
    """Return a `combine` that uses the concatenated items of the summaries alone."""
    return lambda parts, position, setting: gold([x for part in parts.values() for x in part])


def runs(parts: Mapping[int, Sequence[Any]]) -> list[list[Any]]:
    """Return the known stretches: neighbouring shards concatenated, split at gaps."""
    stretches: list[list[Any]] = []
    previous = -2
    for position, shard in parts.items():
        if position == previous + 1:
            stretches[-1].extend(shard)
        else:
            stretches.append(list(shard))
        previous = position
    return stretches
