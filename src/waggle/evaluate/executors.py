"""Executors for ordinary laws: in this process, in worker processes, or on Ray."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Protocol, TypeVar

from waggle.core.errors import ConfigError, suggest
from waggle.process_pool import process_pool
from waggle.shards.cluster import connect, environment

Job = TypeVar("Job")
Result = TypeVar("Result")


class Executor(Protocol):
    """Maps a function over jobs and yields results as they finish, in any order."""

    def map(self, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """Yield the result of every job."""
        ...


class Inline:
    """Runs one job after the other in this process."""

    def __repr__(self) -> str:
        return "inline"

    def map(self, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """Yield the result of every job."""
        for job in jobs:
            yield work(job)


class Processes:
    """Worker processes, one per core unless a number is given; each imports what it needs.

    `opened(*given)` initialises each process.
    """

    def __init__(
        self, workers: int | None = None, opened: Callable[..., None] | None = None, *given: Any
    ) -> None:
        self._workers = workers or os.cpu_count() or 1
        self._opened = opened, *given

    def __repr__(self) -> str:
        return f"{self._workers} processes"

    def map(self, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """Yield the result of every job; an interruption cancels jobs that have not started.

        A worker that dies, for example from lack of memory, breaks its pool: the remaining jobs are
        retried once with half as many workers.

        Raises:
            ConfigError: if workers die again; results that were yielded are valid.
        """
        left = dict(enumerate(jobs))
        for workers in (self._workers, max(1, self._workers // 2)):
            try:
                with process_pool(workers, *self._opened) as pool:
                    places = {pool.submit(work, job): place for place, job in left.items()}
                    for future in as_completed(places):
                        result = future.result()
                        del left[places[future]]
                        yield result
                return
            except BrokenProcessPool:
                continue
        raise ConfigError(
            f"worker processes died twice, {len(left):,} cells are left; run the same command "
            "again with fewer --workers"
        )


class Ray:
    """Tasks on a Ray cluster, or on this machine if none is running, in bounded number."""

    def __init__(self, workers: int | None = None) -> None:
        self._ray: Any = connect()
        self._most = workers or 2 * max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def __repr__(self) -> str:
        return "ray"

    def map(self, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """Yield the result of every job; Ray itself retries a job whose worker died.

        Raises:
            ConfigError: if workers keep dying, or the cluster is lost; results that were yielded
                are valid.
        """
        remote, left = self._ray.remote(runtime_env=environment())(work), iter(jobs)
        running = [remote.remote(job) for job in islice(left, self._most)]
        while running:
            ready, running = self._ray.wait(running)
            try:
                results = self._ray.get(ready)
            except self._ray.exceptions.RayTaskError:
                raise  # a bug in the work itself
            except self._ray.exceptions.RayError as error:
                reason = str(error).splitlines()[0]
                raise ConfigError(
                    f"Ray lost a cell ({reason}); run the same command again with fewer --workers"
                ) from None
            running += [remote.remote(job) for job in islice(left, len(ready))]
            yield from results


def make(name: str, workers: int | None = None) -> Executor:
    """Return an executor by name; refuse fewer than one worker."""
    if workers is not None and workers < 1:
        raise ConfigError("--workers must be at least 1")
    kinds: dict[str, Callable[[], Executor]] = {
        "inline": Inline, "process": lambda: Processes(workers), "ray": lambda: Ray(workers),
    }  # fmt: skip
    if name not in kinds:
        raise ConfigError(f"executor {name!r} is unknown{suggest(name, list(kinds))}")
    return kinds[name]()
