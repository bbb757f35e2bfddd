"""Parts of a pass side by side on the cores of a CPU.

Splitting every small product over the cores means waiting for each other hundreds of times per
pass, and for the slowest core each time: dear on an idle machine, ruinous on a busy one. A lane
runs its own rows through the whole model with one core and waits once. Invariant: which lane runs
a part never shows in its result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")


class Lanes:
    """Threads that compute with one core each."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def _open(self) -> ThreadPoolExecutor:
        """Start the threads at the first use; the caller's own setting stays as it is."""
        with self._lock:
            if self._pool is None:
                threads = torch.get_num_threads()
                ready = threading.Barrier(self.count + 1)
                self._pool = ThreadPoolExecutor(self.count, "lane")
                for _ in range(self.count):
                    self._pool.submit(_settle, ready)
                ready.wait()
                torch.set_num_threads(threads)
            return self._pool

    def map(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
        """Do all parts and return their results in order."""
        return list(self._open().map(lambda part: _quietly(work, part), parts))


def _settle(ready: threading.Barrier) -> None:
    torch.get_num_threads()  # a thread's first use takes over the process's setting: let it pass
    torch.set_num_threads(1)
    ready.wait()


def _quietly(work: Callable[[Part], Result], part: Part) -> Result:
    with torch.inference_mode():
        return work(part)


def spans(sizes: Sequence[int], budget: int) -> list[tuple[int, int]]:
    """Split consecutive rows of some sizes into spans, each about within the budget."""
    if sum(sizes) <= budget:
        return [(0, len(sizes))]
    edges = [0]
    filled = 0
    for row, size in enumerate(sizes):
        if row > edges[-1] and filled + size // 2 > budget:
            edges.append(row)
            filled = 0
        filled += size
    return list(zip(edges, [*edges[1:], len(sizes)], strict=True))
