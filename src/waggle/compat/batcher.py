"""Dynamic batching: requests that arrive separately are decided in batches.

One thread owns the law; replicas of a law have one thread each, and all take batches from one
queue. Invariant: the queue is bounded, and every accepted request is answered, with an error if the
law failed on it. A request whose caller has disconnected is skipped; neither it nor a request on
which the law fails affects any other.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from waggle.core.protocols import Decode, Law, Request
from waggle.plugin_files import FAULTS, raised


class QueueFull(Exception):
    """Raised when the queue is full; the caller should retry later."""


class NoReplica(Exception):
    """Raised when no replica can decide; the batch is then not split and retried."""


class Batcher:
    """A bounded request queue in front of a law or several replicas of it."""

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
            QueueFull: if the queue is full.
        """
        future: Future[Decode] = Future()
        try:
            self._queue.put_nowait((request, future))
        except queue.Full:
            raise QueueFull from None
        return future

    def waiting(self) -> int:
        """Return the number of queued requests."""
        return self._queue.qsize()

    def close(self) -> None:
        """Answer the queued requests, then stop the threads."""
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
        """Add requests while each arrives within `wait`; return whether the end mark arrived."""
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
        """Decide a batch; on failure, split it in halves until failing requests are isolated."""
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
    """Return the error, wrapped if it would end the server or cannot be set on a future."""
    return RuntimeError(raised(error)) if isinstance(error, SystemExit | StopIteration) else error
