"""A crew of worker processes that ends with the process that called it, however that ends.

Workers are fresh processes (a fork of a process that has used CUDA or threads may hang) and watch
their parent: after a kill none of them stays behind.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any


@contextmanager
def crew(
    size: int, opened: Callable[..., None] | None = None, *given: Any
) -> Iterator[ProcessPoolExecutor]:
    """Open so many worker processes, each prepared by `opened(*given)`."""
    context = get_context("spawn")
    with ProcessPoolExecutor(size, context, initializer=_start, initargs=(opened, given)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _start(opened: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    # One process per core: threads below them would only be in one another's way.
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
