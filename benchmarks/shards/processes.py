"""Shards and copies of a law as plain processes of this machine, without Ray.

    with Processes("nano", partial(plugins.get_law, "nano"), shards=12, pool=4) as group:
        play(case, law, group=group)

The group is reused for many episodes, so that weights are loaded once. Every shard sends its
requests to one copy of the law and waits for the answers; a copy decides all waiting requests in
one batch. A process that dies ends the benchmark; only Ray restarts lost ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from waggle.core.protocols import Decode, Law, Request
from waggle.engine import memory as gpu_memory
from waggle.process_pool import end_with_parent
from waggle.runtime.repair import ask
from waggle.shards.division import Division, ShardDecisions, ShardRound
from waggle.shards.inline import answered
from waggle.shards.shard import restored


class Work(NamedTuple):
    """The totals of one copy of the law so far."""

    seconds: float
    """Seconds spent on decisions."""
    decisions: int
    batches: int


class Processes:
    """A group of plain processes; `division` describes the next episode they play."""

    division: Division
    size: int
    """The number of shards."""
    began: float
    """The time at which the last episode was open and its first round could begin."""

    def __init__(self, law: str, make: Callable[[], Law], shards: int, pool: int) -> None:
        context = get_context("spawn")
        pool = min(pool, shards)
        self.size = shards
        self.began = 0.0
        self._work = [context.RawArray("d", 3) for _ in range(pool)]
        loading = [context.Pipe(duplex=False) for _ in range(pool)]
        self._laws = [here for here, _ in loading]
        asking = [context.Pipe() for _ in range(shards)]
        ways = [context.Pipe() for _ in range(shards)]
        self._shards: list[Any] = [here for here, _ in ways]
        self._batches: list[list[bytes]] = []
        started = [
            context.Process(
                target=_law,
                args=(make, [there for _, there in asking[index::pool]], work, pool, ready),
                daemon=True,
            )
            for index, (work, (_, ready)) in enumerate(zip(self._work, loading, strict=True))
        ]
        started += [
            context.Process(target=_shard, args=(law, there, here), daemon=True)
            for (_, there), (here, _) in zip(ways, asking, strict=True)
        ]
        for process in started:
            process.start()
        self._started = started
        # The child ends of all pipes are closed here, so that a dead process is noticed.
        theirs = [*(there for _, there in (*ways, *loading)), *chain(*asking)]
        for end in theirs:
            end.close()

    def loaded(self) -> None:
        """Wait until every copy of the law has loaded its weights."""
        for law in self._laws:
            law.recv()

    def work(self) -> list[Work]:
        """Return the totals of every copy of the law so far."""
        return [Work(one[0], int(one[1]), int(one[2])) for one in self._work]

    def restore(self, states: Sequence[Path] | None, names: Mapping[str, str]) -> None:
        """Restore every shard to a saved state of the division, or to its beginning."""
        paths: Sequence[Path | None] = states or [None] * len(self._shards)
        self._all("restore", [(self.division, k, path, names) for k, path in enumerate(paths)])
        self.began = time.perf_counter()

    def begin(self, round: int, committed: Mapping[int, str] | None) -> list[ShardDecisions]:
        """Play the first part of a round."""
        found = self._all("begin", [(round, committed)] * len(self._shards))
        self._batches = [batches for _, batches in found]
        return [sent for sent, _ in found]

    def finish(self, round: int, shocking: bool) -> list[ShardRound]:
        """Pass the batches to their shards and play the second part of a round."""
        batches = zip(*self._batches, strict=True)
        return self._all("finish", [(round, own, shocking) for own in batches])

    def keep(self, paths: Sequence[Path]) -> None:
        """Save the state of every shard."""
        self._all("keep", [(path,) for path in paths])

    def close(self) -> None:
        """Do nothing, so that the processes remain for the next episode."""

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes."""
        for process in self._started:
            process.terminate()
            process.join()

    def _all(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard and wait for all results."""
        for way, own in zip(self._shards, arguments, strict=True):
            way.send((method, own))
        return [way.recv() for way in self._shards]


class _Asked:
    """A law that forwards the requests of a shard to a copy of the real law."""

    def __init__(self, name: str, way: Connection) -> None:
        self.name = name
        self._way = way

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Return the decisions of the copy of the law."""
        self._way.send(requests)
        decodes: Sequence[Decode] = self._way.recv()
        return decodes


def _shard(name: str, way: Connection, asking: Connection) -> None:
    """Run the loop of a shard process."""
    end_with_parent()
    law = _Asked(name, asking)
    while True:
        method, given = way.recv()
        if method == "restore":
            division, index, path, names = given
            shard = restored(path, division, index, law)
            shard.swarm.aliases.adopt(names)
            way.send(None)
        elif method == "begin":
            way.send(answered(shard.begin(*given), law))
        else:
            way.send(getattr(shard, method)(*given))


def _law(
    make: Callable[[], Law], shards: Sequence[Connection], work: Any, pool: int, ready: Connection
) -> None:
    """Run the loop of a law process, which decides for the given shards."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would compete with the shards
    end_with_parent()
    law = make()
    load = getattr(law, "load", None)
    if load is not None:
        load()
    gpu_memory.keep_to(pool)
    ready.send(None)
    while True:
        waiting: list[Any] = wait(shards)
        asked = [way.recv() for way in waiting]
        together = [request for requests in asked for request in requests]
        start = time.perf_counter()
        decodes = ask(law, together)
        work[0] += time.perf_counter() - start
        work[1] += len(together)
        work[2] += 1
        first = 0
        for way, requests in zip(waiting, asked, strict=True):
            way.send(decodes[first : first + len(requests)])
            first += len(requests)
