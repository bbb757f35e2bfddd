"""Dynamic batching: requests that arrive one by one are decided in batches.

One thread owns the law. Invariant: the queue is bounded, and every accepted request is answered,
with an error if the law failed on it. A request whose caller is gone is left out; neither it nor
one that the law cannot decide harms any other.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from waggle.core.protocols import Decode, Law, Request


class Full(Exception):
    """The queue is full; the caller should come back later."""


class Batcher:
    """A law behind a bounded queue."""

    def __init__(self, law: Law, max_queue: int, max_batch: int, wait: float = 0.005) -> None:
        self._law = law
        self._max_batch = max_batch
        self._wait = wait
        self._queue: queue.Queue[tuple[Request, Future[Decode]] | None] = queue.Queue(max_queue)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> Future[Decode]:
        """Queue a request.

        Raises:
            Full: when as many wait already as may.
        """
        future: Future[Decode] = Future()
        try:
            self._queue.put_nowait((request, future))
        except queue.Full:
            raise Full from None
        return future

    def waiting(self) -> int:
        """Return how many requests wait."""
        return self._queue.qsize()

    def close(self) -> None:
        """Answer what is queued, then stop."""
        self._queue.put(None)
        self._thread.join(timeout=30)

    def _work(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            batch = [first]
            stop = self._fill(batch)
            self._answer(batch)
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

    def _answer(self, batch: Sequence[tuple[Request, Future[Decode]]]) -> None:
        self._decide([pair for pair in batch if pair[1].set_running_or_notify_cancel()])

    def _decide(self, batch: Sequence[tuple[Request, Future[Decode]]]) -> None:
        """Let the law decide a batch; where it fails, halves of it, down to what it fails on."""
        if not batch:
            return
        try:
            decodes = list(self._law.decide([request for request, _ in batch]))
            if len(decodes) != len(batch):
                raise ValueError("not one decode for every request")
        except Exception as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
            middle = len(batch) // 2
            self._decide(batch[:middle])
            self._decide(batch[middle:])
            return
        for (_, future), decode in zip(batch, decodes, strict=True):
            future.set_result(decode)
