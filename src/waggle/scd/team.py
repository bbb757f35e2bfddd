"""Processes that train arms side by side: started ahead, and each dies alone.

Importing takes a process as long as some hundred updates of a small backbone, so a team is started
before its work is there. Invariant: the death of one process breaks no other's work.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from typing import Any

from waggle.crew import crew


def _open(threads: int) -> None:
    """Prepare a process: threads, and all that training and diagnosing import."""
    import torch

    torch.set_num_threads(threads)
    for name in ("trainer", "stages", "findings"):
        import_module(f"waggle.scd.{name}")
    import_module("transformers.models.llama.modeling_llama")


def _begun() -> None:
    """Do nothing, in a process that is thereby started."""


class Team:
    """So many processes, each a pool of its own; a context."""

    def __init__(self, jobs: int) -> None:
        self._threads = max(1, (os.cpu_count() or 1) // jobs)
        self._opened = ExitStack()
        self.pools = [self.fresh() for _ in range(jobs)]

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def fresh(self) -> ProcessPoolExecutor:
        """Start one more process."""
        pool = self._opened.enter_context(crew(1, _open, self._threads))
        pool.submit(_begun)
        return pool
