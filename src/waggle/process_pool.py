"""A pool of worker processes that ends with the process that started it, however that ends.

Workers are fresh processes (a fork of a process that has used CUDA or threads may hang) and watch
their parent: after a kill none of them stays behind.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, TypeAlias

Run: TypeAlias = Callable[[Callable[[Any, Any], Any], Iterable[Any]], Iterator[Any]]
"""Maps `function(made, item)` over items, in their order (see `mapped`)."""

_STARTING = threading.Lock()
"""Held while a process is started: threads may start some at a time."""


class _Process(SpawnProcess):
    """A process that does not run the script of the one that starts it."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        # A script without `if __name__ == "__main__"` would call for workers in every worker.
        with _STARTING:
            script = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                return SpawnProcess._Popen(process_obj)
            finally:
                sys.modules["__main__"] = script


class _Alone(SpawnContext):
    Process = _Process


@contextmanager
def process_pool(
    size: int, opened: Callable[..., None] | None = None, *given: Any
) -> Iterator[ProcessPoolExecutor]:
    """Open so many worker processes, each prepared by `opened(*given)`."""
    context = _Alone()
    with ProcessPoolExecutor(size, context, initializer=_start, initargs=(opened, given)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def mapped(size: int, make: Callable[[], Any]) -> Iterator[Run]:
    """Yield a map over so many processes, each with an object that it makes for itself.

    With one process there is none: items are worked on here, one by one as results are read.
    Results that are no longer read are cancelled.
    """
    if size <= 1:
        made = make()
        yield lambda function, items: (function(made, item) for item in items)
        return
    with process_pool(size, _make, make) as pool:
        yield lambda function, items: pool.map(partial(_with_made, function), items)
        pool.shutdown(cancel_futures=True)


_MADE: list[Any] = []
"""The object of a worker process."""


def _make(make: Callable[[], Any]) -> None:
    _MADE[:] = [make()]


def _with_made(function: Callable[[Any, Any], Any], item: Any) -> Any:
    return function(_MADE[0], item)


def _start(opened: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    # One process per core: threads of a worker would compete with the other workers.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    end_with_parent()
    if opened is not None:
        opened(*given)


def end_with_parent() -> None:
    """Let this worker process end as soon as the one that started it is gone."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
