"""Laws with weights as a pool of actors, which batch the requests of all shards.

A shard has at most one chunk of views in flight and waits for its answers, so that the queue of a
law is bounded by the number of shards. Requests that arrive while a batch is decided form the next
batch. Laws are batch-order independent, so answers do not depend on the rest of the batch.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from waggle.core.protocols import Decode, Law, Request
from waggle.engine import memory as gpu_memory
from waggle.runtime.repair import ask
from waggle.shards.coordinator import LostShard


class LawActor:
    """One copy of a law, in a separate process, on a GPU if there is one."""

    def __init__(self, make: Callable[[], Law], pool: int = 1) -> None:
        """Load a law; `pool` copies of it may share one GPU."""
        self._law = make()
        load = getattr(self._law, "load", None)
        if load is not None:
            load()
        gpu_memory.keep_to(pool)
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[Sequence[Request], asyncio.Future[Sequence[Decode]]]] = []
        self._deciding = False
        self.batches: list[int] = []
        """Number of requests in every batch so far."""

    async def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Decide these requests, batched with all waiting ones."""
        answer: asyncio.Future[Sequence[Decode]] = asyncio.get_running_loop().create_future()
        self._waiting.append((requests, answer))
        if not self._deciding:
            self._deciding = True
            try:
                await self._decide_all()
            finally:
                self._deciding = False
        return await answer

    async def _decide_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            together = [request for requests, _ in waiting for request in requests]
            self.batches.append(len(together))
            try:
                decodes = await loop.run_in_executor(self._thread, ask, self._law, together)
            except Exception as error:
                for _, answer in waiting:
                    answer.set_exception(error)
                continue
            start = 0
            for requests, answer in waiting:
                answer.set_result(decodes[start : start + len(requests)])
                start += len(requests)

    async def process(self) -> int:
        """Return the process ID; an answer shows that the actor is alive."""
        return os.getpid()


class PooledLaw:
    """The law as a shard calls it: each actor of the pool gets a part of every chunk."""

    def __init__(self, name: str, actors: Sequence[Any]) -> None:
        self.name = name
        self._actors = actors

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Decide the requests in the pool.

        Raises:
            LostShard: if an actor of the pool is lost.
        """
        import ray

        share = -(-len(requests) // len(self._actors))
        starts = range(0, len(requests), share)
        asked = [
            actor.decide.remote(requests[start : start + share])
            for actor, start in zip(self._actors, starts, strict=False)
        ]
        try:
            answers: list[Sequence[Decode]] = ray.get(asked)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # an error of the law
        except ray.exceptions.RayError:
            raise LostShard("an actor of the law was lost") from None
        return [decode for answer in answers for decode in answer]
