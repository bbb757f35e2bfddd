"""All shards in this process, one after the other, for tests and debugging.

footer = Coordinator(division, world, law, InlineShards(division, law)).play()
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from waggle.core.protocols import Decode, Law, Request
from waggle.runtime.repair import ask
from waggle.shards.division import Division, ShardDecisions, ShardRound
from waggle.shards.shard import Shard, restored

Result = TypeVar("Result")


class InlineShards:
    """Shards that are played in this process."""

    def __init__(self, division: Division, law: Law) -> None:
        self._division = division
        self._law = law
        self._shards: list[Shard] = []
        self._batches: list[list[bytes]] = []

    def restore(self, states: Sequence[Path] | None, names: Mapping[str, str]) -> None:
        """Set every shard to a kept state, or its initial state."""
        paths: Sequence[Path | None] = states or [None] * self._division.shards
        self._shards = [
            restored(path, self._division, index, self._law) for index, path in enumerate(paths)
        ]
        for shard in self._shards:
            shard.swarm.aliases.adopt(names)

    def begin(self, round: int, committed: Mapping[int, str] | None) -> list[ShardDecisions]:
        """Play the first part of a round."""
        found = [answered(shard.begin(round, committed), self._law) for shard in self._shards]
        self._batches = [batches for _, batches in found]
        return [sent for sent, _ in found]

    def finish(self, round: int, shocking: bool) -> list[ShardRound]:
        """Exchange the batches and play the second part of a round."""
        closed = []
        for index, shard in enumerate(self._shards):
            batches = [theirs[index] for theirs in self._batches]
            closed.append(shard.finish(round, batches, shocking))
        return closed

    def keep(self, paths: Sequence[Path]) -> None:
        """Write the state of every shard."""
        for shard, path in zip(self._shards, paths, strict=True):
            shard.keep(path)

    def close(self) -> None:
        """Release the shards."""
        self._shards = []


def answered(asking: Generator[Sequence[Request], Sequence[Decode], Result], law: Law) -> Result:
    """Run a shard's generator, with the law's decodes for its requests; return its result."""
    try:
        requests = next(asking)
        while True:
            requests = asking.send(ask(law, requests))
    except StopIteration as end:
        result: Result = end.value
        return result
