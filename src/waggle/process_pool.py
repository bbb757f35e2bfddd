"""A pool of worker processes that exit with their parent process, even if it is killed.

Workers are spawned, since a fork of a process that has used CUDA or threads may hang. Each of them
watches its parent and exits when the parent is gone.
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
"""A map of `function(made, item)` over items, in their order (see `mapped`)."""

_STARTING = threading.Lock()
"""Held while a process is started, since several threads may start processes at once."""


class _Process(SpawnProcess):
    """A process that does not run the main script of its parent."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        # A script without `if __name__ == "__main__"` would start workers in every worker.
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
    """Open a pool of `size` worker processes, each initialised by `opened(*given)`."""
    context = _Alone()
    with ProcessPoolExecutor(size, context, initializer=_start, initargs=(opened, given)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def mapped(size: int, make: Callable[[], Any]) -> Iterator[Run]:
    """Yield a map over `size` processes, each of which creates one object with `make`.

    With size 1 no process is started: items are processed here, lazily, as results are read. On
    exit, pending items are cancelled.
    """
    if size <= 1:
        made = make()
        yield lambda function, items: (function(made, item) for item in items)
        return
    with process_pool(size, _make, make) as pool:
        yield lambda function, items: pool.map(partial(_with_made, function), items)
        pool.shutdown(cancel_futures=True)


_MADE: list[Any] = []
"""The object that this worker process created."""


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
    """Make this worker process exit as soon as its parent process is gone."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
