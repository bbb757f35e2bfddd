"""Training jobs in parallel, in worker processes that may die without affecting one another.

A process takes as long to import its libraries as for some hundred updates of a small backbone, so
workers are started before their jobs are ready. Each builds its student once and runs one job after
another with it. Jobs store their results, and a job with a stored result is not run again.
Invariant: a job that fails, or whose process dies, affects no other job.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch

from waggle.core.errors import WaggleError
from waggle.process_pool import process_pool
from waggle.scd.config import Recipe
from waggle.scd.model import Student

TRIES = 2
"""Maximum number of attempts for a job whose process dies, or that runs out of memory."""


class Job(Protocol):
    """Something to train and measure, such as an arm of a factorial."""

    @property
    def name(self) -> str:
        """Name of the job in messages."""
        ...

    def kept(self) -> dict[str, Any] | None:
        """Return its stored result, or None if it is missing."""
        ...

    def run(self) -> dict[str, Any]:
        """Compute its result and store it."""
        ...

    def tidy(self) -> None:
        """Remove files that are not needed once the result is stored."""
        ...


J = TypeVar("J", bound=Job)
Failed = Callable[[J, str], None]
"""Callback with a job that failed, and the reason."""

_STUDENTS: dict[str, Student] = {}
"""Cache of the student of this process, by recipe."""


def student_of(recipe: Recipe) -> Student:
    """Return this process's student of a recipe, with the weights that the last job left."""
    name = recipe.model_dump_json()
    if name not in _STUDENTS:
        _STUDENTS.clear()
        _STUDENTS[name] = Student(recipe, 0)
    return _STUDENTS[name]


def _do(job: Job) -> dict[str, Any]:
    """Run a job in this process."""
    try:
        return job.run()
    except BaseException:
        _STUDENTS.clear()  # the student's state is unknown: the next job builds a new one
        raise


def _open(threads: int) -> None:
    """Prepare a worker process: set threads, import the modules of training and diagnosis."""
    torch.set_num_threads(threads)
    for name in ("waggle.scd.run.factorial", "transformers.models.llama.modeling_llama"):
        import_module(name)


def _begin() -> None:
    """Do nothing; submitting this function starts the process."""


class Workers:
    """Worker processes, each in a separate pool of one; a context manager."""

    def __init__(self, count: int) -> None:
        self._threads = max(1, (os.cpu_count() or 1) // count)
        self._opened = ExitStack()
        self.pools = [self.start() for _ in range(count)]

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def start(self) -> ProcessPoolExecutor:
        """Start one more process and return its pool."""
        pool = self._opened.enter_context(process_pool(1, _open, self._threads))
        pool.submit(_begin)
        return pool


@contextmanager
def started(jobs: Sequence[Job], count: int) -> Iterator[Workers | None]:
    """Start at most one worker per open job in advance; yield None if jobs run in this process."""
    left = sum(job.kept() is None for job in jobs)
    if count <= 1 or not left:
        yield None
        return
    with Workers(min(count, left)) as workers:
        yield workers


def _raise(job: Job, reason: str) -> None:
    raise WaggleError(f"{job.name}: {reason}")


def run_all(
    jobs: Sequence[J], count: int, failed: Failed[J] = _raise, workers: Workers | None = None
) -> Iterator[dict[str, Any]]:
    """Run jobs in order, several in parallel; yield results as they complete.

    Args:
        jobs: the jobs; stored results are yielded first.
        count: number of worker processes; with one, jobs run in this process.
        failed: called with a job that fails, or that dies or runs out of memory twice; the other
            jobs continue.
        workers: workers that were started in advance.
    """
    todo = []
    for job in jobs:
        if (kept := job.kept()) is None:
            todo.append(job)
        else:
            job.tidy()
            yield kept
    if workers is not None:
        yield from _in_workers(todo, workers, failed)
        return
    with started(todo, count) as own:
        yield from _here(todo, failed) if own is None else _in_workers(todo, own, failed)


def _here(jobs: Sequence[J], failed: Failed[J]) -> Iterator[dict[str, Any]]:
    for job in jobs:
        try:
            yield _do(job)
        except Exception as error:  # whatever the error, the other jobs continue
            failed(job, reason(error))


class _Attempt(NamedTuple, Generic[J]):
    """One of at most `TRIES` runs of a job in a worker."""

    job: J
    number: int = 1

    @property
    def is_last(self) -> bool:
        return self.number >= TRIES

    def retry(self) -> _Attempt[J]:
        return self._replace(number=self.number + 1)


def _in_workers(jobs: Sequence[J], workers: Workers, failed: Failed[J]) -> Iterator[dict[str, Any]]:
    """Give each job to the next idle worker; jobs that ran out of memory run alone at the end.

    A worker that died, or whose job ran out of memory and is tried again, is replaced.
    """
    todo = deque(_Attempt(job) for job in jobs)
    out_of_memory: deque[_Attempt[J]] = deque()
    running: dict[Future[dict[str, Any]], tuple[ProcessPoolExecutor, _Attempt[J]]] = {}
    idle = list(workers.pools)
    while todo or running or out_of_memory:
        if not (todo or running):  # the memory of the other jobs is free now
            todo.append(out_of_memory.popleft())
        while todo and idle:
            pool, attempt = idle.pop(), todo.popleft()
            running[_submit(pool, attempt.job)] = (pool, attempt)
        for ended in wait(running, return_when=FIRST_COMPLETED).done:
            pool, attempt = running.pop(ended)
            try:
                yield ended.result()
            except BrokenProcessPool:
                idle.append(workers.start())
                if attempt.is_last:
                    why = f"its process died {TRIES} times; try again with fewer --jobs"
                    failed(attempt.job, why)
                else:
                    todo.append(attempt.retry())
            except Exception as error:
                if "out of memory" in str(error) and not attempt.is_last:
                    pool.shutdown(wait=False)  # frees the memory of the process
                    idle.append(workers.start())
                    out_of_memory.append(attempt.retry())
                else:
                    idle.append(pool)
                    failed(attempt.job, reason(error))
            else:
                idle.append(pool)


def _submit(pool: ProcessPoolExecutor, job: Job) -> Future[dict[str, Any]]:
    """Submit a job to a worker; a dead worker gives the same error as one that dies later."""
    try:
        return pool.submit(_do, job)
    except BrokenProcessPool as error:
        dead: Future[dict[str, Any]] = Future()
        dead.set_exception(error)
        return dead


def reason(error: Exception) -> str:
    """Return one line that says why a job failed."""
    said = str(error) if isinstance(error, WaggleError) else f"{type(error).__name__}: {error}"
    return (said.splitlines() or [""])[0][:300]
