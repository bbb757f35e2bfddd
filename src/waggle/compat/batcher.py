"""Dynamic batching: requests that arrive one by one are decided in batches.

One thread owns the law; replicas of a law have a thread each, which take batches from one queue.
Invariant: the queue is bounded, and every accepted request is answered, with an error if the law
failed on it. A request whose caller is gone is left out; neither it nor one that the law cannot
decide harms any other.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from waggle.core.protocols import Decode, Law, Request
from waggle.plugin_files import FAULTS, raised


class QueueFull(Exception):
    """The queue is full; the caller should come back later."""


class NoReplica(Exception):
    """Nobody decides; no part of a batch would fare better."""


class Batcher:
    """A law, or several replicas of it, behind a bounded queue."""

    def __init__(
        self, laws: Sequence[Law], max_queue: int, max_batch: int, wait: float = 0.005
    ) -> None:
        self._max_batch = max_batch
        self._wait = wait
        self._queue: queue.Queue[tuple[Request, Future[Decode]] | None] = queue.Queue(max_queue)
        self._threads = [
            threading.Thread(target=self._work, args=(law,), daemon=True) for law in laws
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, request: Request) -> Future[Decode]:
        """Queue a request.

        Raises:
            Full: when as many wait already as may.
        """
        future: Future[Decode] = Future()
        try:
            self._queue.put_nowait((request, future))
        except queue.Full:
            raise QueueFull from None
        return future

    def waiting(self) -> int:
        """Return how many requests wait."""
        return self._queue.qsize()

    def close(self) -> None:
        """Answer what is queued, then stop."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=30)

    def _work(self, law: Law) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            batch = [first]
            stop = self._fill(batch)
            self._answer(law, batch)
            if stop:
                return

    def _fill(self, batch: list[tuple[Request, Future[Decode]]]) -> bool:
        """Add what else arrives within the wait; return whether the end mark was among it."""
        while len(batch) < self._max_batch:
            try:
                item = self._queue.get(timeout=self._wait)
            except queue.Empty:
                return False
            if item is None:
                return True
            batch.append(item)
        return False

    def _answer(self, law: Law, batch: Sequence[tuple[Request, Future[Decode]]]) -> None:
        self._decide(law, [pair for pair in batch if pair[1].set_running_or_notify_cancel()])

    def _decide(self, law: Law, batch: Sequence[tuple[Request, Future[Decode]]]) -> None:
        """Let the law decide a batch; where it fails, halves of it, down to what it fails on."""
        if not batch:
            return
        try:
            decodes = list(law.decide([request for request, _ in batch]))
            if len(decodes) != len(batch):
                raise ValueError("not one decode for every request")
        except FAULTS as error:
            if len(batch) == 1 or isinstance(error, NoReplica):
                for _, future in batch:
                    future.set_exception(_raisable(error))
                return
            middle = len(batch) // 2
            self._decide(law, batch[:middle])
            self._decide(law, batch[middle:])
            return
        for (_, future), decode in zip(batch, decodes, strict=True):
            future.set_result(decode)


def _raisable(error: BaseException) -> BaseException:
    """Return an error that a server can raise: not one that ends it or that no event loop takes."""
    return RuntimeError(raised(error)) if isinstance(error, SystemExit | StopIteration) else error
