"""What a few updates do: how long the GPU computes, and where this process spends its own time."""

from __future__ import annotations

import cProfile
import pstats
import time
from typing import Any, NamedTuple

import torch

from waggle.scd.train.trainer import Trainer

UPDATES = 5
"""Updates that are looked at, each way."""
FUNCTIONS = 10


class Host(NamedTuple):
    """What was seen."""

    busy: float
    """Kernel time over wall time; 0 without a GPU."""
    functions: list[str]
    """`milliseconds per update, calls per update, name`, the largest first."""


def watched(trainer: Trainer, first: int) -> Host:
    """Look at some updates, from a given one on."""
    functions = _functions(trainer, first)
    busy = _busy(trainer, first + UPDATES) if torch.cuda.is_available() else 0.0
    return Host(busy, functions)


def _busy(trainer: Trainer, first: int) -> float:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in trainer.steps(first, first + UPDATES):
            pass
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
    events: Any = seen.events()
    kernels = sum(e.time_range.elapsed_us() for e in events if str(e.device_type).endswith("CUDA"))
    return float(kernels / 1e6 / wall)


def _functions(trainer: Trainer, first: int) -> list[str]:
    profiler = cProfile.Profile()
    steps = trainer.steps(first, first + UPDATES)
    profiler.enable()
    for _ in steps:
        pass
    profiler.disable()
    stats: Any = pstats.Stats(profiler)
    largest = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:FUNCTIONS]
    return [
        f"{own / UPDATES * 1e3:.2f} ms, {calls / UPDATES:.0f} calls, {_name(*where)}"
        for where, (_, calls, own, _, _) in largest
    ]


def _name(file: str, line: int, function: str) -> str:
    return function if file == "~" else f"{'/'.join(file.split('/')[-2:])}:{line} {function}"
