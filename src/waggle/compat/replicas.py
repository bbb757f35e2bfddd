"""Several replicas of a law behind one server, each in a process that is restarted if it dies.

    with opened("nano", make, 2) as replicas:   # "ray": actors, on this machine or a cluster
        app(law, replicas=replicas)

Clients reach only the server, with its limits and its queue; replicas take batches from the queue
as they become free. A law's decision does not depend on the rest of the batch, so the answers equal
those of one replica. Invariant: requests in flight in a replica that dies are retried once; a
request that kills a replica twice is answered with an error and does not affect others.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import active_children
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from waggle.compat.batcher import NoReplica
from waggle.core.protocols import Decode, Law, Request
from waggle.process_pool import process_pool
from waggle.shards.cluster import connect, environment
from waggle.shards.law_pool import LawActor

Make: TypeAlias = Callable[[], Law]
Where: TypeAlias = Literal["here", "ray"]
_Answer = TypeVar("_Answer")
WATCH_SECONDS = 1.0
"""Longest time from the death of an idle replica to its restart, in seconds."""


class ReplicaDied(Exception):
    """Raised when a replica has died; `Replica.decide` raises it only after a second death."""


class _Host(Protocol):
    """The process or actor of a replica; every method raises `ReplicaDied` if it has died."""

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]: ...

    def check(self) -> None: ...

    def process(self) -> int: ...

    def close(self) -> None: ...


class _Process:
    """A process on this machine, with a GPU assigned round-robin and a share of the cores."""

    def __init__(self, make: Make, index: int, count: int) -> None:
        self._stack = ExitStack()
        self._pool = self._stack.enter_context(process_pool(1, _prepare, index, count))
        self._process = 0
        try:
            self._process = self._do(_load, make)
        except BaseException:
            self.close()
            raise

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        found: Sequence[Decode] = self._do(_decide, requests)
        return found

    def check(self) -> None:
        with _loss(BrokenProcessPool):
            self._pool.submit(os.getpid)  # raises if the pool's process has died

    def process(self) -> int:
        return self._process

    def close(self) -> None:
        for child in active_children():
            if child.pid == self._process:
                child.kill()  # even if it hangs
        self._stack.close()

    def _do(self, function: Callable[..., Any], *given: Any) -> Any:
        with _loss(BrokenProcessPool):
            return self._pool.submit(function, *given).result()


_LAW: list[Law] = []
"""The law of this replica process."""


def _prepare(index: int, count: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its replicas itself
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (cores or 1) // count)))
    if gpus := _gpus():
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[index % len(gpus)]


def _gpus() -> list[str]:
    """List the GPUs of this machine without loading a library that a replica may not need."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name]
    with suppress(OSError):
        return [str(place) for place, _ in enumerate(os.listdir("/proc/driver/nvidia/gpus"))]
    return []


def _load(make: Make) -> int:
    law = make()
    getattr(law, "load", lambda: None)()
    _LAW[:] = [law]
    return os.getpid()


def _decide(requests: Sequence[Request]) -> Sequence[Decode]:
    return list(_LAW[0].decide(requests))


class _Actor:
    """A Ray actor, on the existing cluster or on this machine."""

    def __init__(self, make: Make, index: int, count: int) -> None:
        self._ray = connect()
        gpus = self._ray.cluster_resources().get("GPU", 0)
        kind = self._ray.remote(
            num_cpus=0, num_gpus=min(1.0, gpus / count), scheduling_strategy="SPREAD",
            runtime_env=environment(), max_concurrency=8,
        )(LawActor)  # fmt: skip
        self._actor = kind.remote(make)
        self.process()  # waits for the weights

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        found: Sequence[Decode] = self._got(self._actor.decide.remote(requests))
        return found

    def check(self) -> None:
        with suppress(self._ray.exceptions.GetTimeoutError):
            self._got(self._actor.process.remote(), timeout=WATCH_SECONDS)

    def process(self) -> int:
        return int(self._got(self._actor.process.remote()))

    def close(self) -> None:
        self._ray.kill(self._actor)

    def _got(self, answer: Any, **options: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer, **options)
        except errors.RayTaskError as error:
            raise error.cause from None  # an error of the law
        except errors.GetTimeoutError:
            raise
        except errors.RayError as error:
            raise ReplicaDied(str(error).partition("\n")[0]) from None


_HOMES: dict[Where, Callable[[Make, int, int], _Host]] = {"here": _Process, "ray": _Actor}


@contextmanager
def _loss(kind: type[Exception]) -> Iterator[None]:
    """Convert an exception of the given kind into `ReplicaDied`."""
    try:
        yield
    except kind as error:
        raise ReplicaDied(str(error).partition("\n")[0]) from None


class Replica:
    """A law in a separate process or actor, which is restarted if it dies."""

    def __init__(self, name: str, start: Callable[[], _Host]) -> None:
        self.name = name
        self.starts = 1
        """Number of starts, including the first."""
        self._start = start
        self._lock = threading.Lock()
        self._ended = False
        self._home: _Host | None = start()

    @property
    def ready(self) -> bool:
        """True unless the process is known to have died or was closed."""
        return self._home is not None

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Let the replica decide a batch; retry once after a restart if it dies.

        Raises:
            ReplicaDied: if it died a second time on the same requests.
            NoReplica: if it cannot be started, or was closed.
        """
        try:
            return self._asked(lambda home: home.decide(requests))
        except ReplicaDied:
            return self._asked(lambda home: home.decide(requests))

    def process(self) -> int:
        """Return the process ID of the replica."""
        return self._asked(lambda home: home.process())

    def check(self) -> None:
        """Restart the replica if it has died."""
        with suppress(NoReplica):  # the next check tries again
            try:
                self._asked(lambda home: home.check())
            except ReplicaDied:
                self._living()

    def close(self) -> None:
        """End the replica's process for good."""
        with self._lock:
            home, self._home, self._ended = self._home, None, True
        if home is not None:
            home.close()

    def _asked(self, question: Callable[[_Host], _Answer]) -> _Answer:
        home = self._living()
        try:
            return question(home)
        except ReplicaDied:
            with self._lock:
                if self._home is home:
                    self._home = None
            home.close()
            raise

    def _living(self) -> _Host:
        with self._lock:
            if self._ended:
                raise NoReplica(f"the replicas of {self.name} have ended")
            if self._home is None:
                try:
                    self._home = self._start()
                except Exception as error:
                    raise NoReplica(f"a replica of {self.name} cannot be started") from error
                self.starts += 1
            return self._home


@contextmanager
def opened(name: str, make: Make, count: int, where: Where = "here") -> Iterator[list[Replica]]:
    """Start replicas of a law in parallel; leaving the context ends them.

    Args:
        name: name of the law.
        make: callable that makes the law, called in each replica's process.
        count: number of replicas.
        where: "here" for processes on this machine, "ray" for Ray actors.

    Raises:
        WaggleError: the law's error if it cannot be loaded.
    """
    if where == "ray":
        connect()  # once, in the calling thread
    starts = [partial(_HOMES[where], make, index, count) for index in range(count)]
    with ExitStack() as stack:
        with ThreadPoolExecutor(count) as pool:
            coming = [pool.submit(Replica, name, start) for start in starts]
        for future in coming:
            if future.exception() is None:  # if another one failed, this one is closed as well
                stack.callback(future.result().close)
        replicas = [future.result() for future in coming]
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(replicas, ended), daemon=True)
        watcher.start()
        stack.callback(watcher.join)
        stack.callback(ended.set)
        yield replicas


def _watch(replicas: Sequence[Replica], ended: threading.Event) -> None:
    """Restart replicas that die while idle."""
    while not ended.wait(WATCH_SECONDS):
        for replica in replicas:
            replica.check()
