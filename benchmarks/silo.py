"""The cost of a whole Silo episode, in processor time on one core (`waggle bench silo`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from waggle import plugins
from waggle.core.protocols import Case
from waggle.runtime import sync
from waggle.substrates.silo.cases import TASKS

LIMIT_SECONDS = 0.25
"""Limit: processor seconds of a 64-agent, nine-round heuristic episode, mean of 30 tasks."""
SEED = 10_000
"""The first development seed."""


@dataclass(frozen=True)
class SiloSpeed:
    """Processor seconds of one episode per task."""

    law: str
    n: int
    seconds: dict[str, float]

    @property
    def mean(self) -> float:
        """Mean over the tasks."""
        return fmean(self.seconds.values())


def silo_speed(
    law: str = "heuristic", n: int = 64, tasks: Sequence[str] = tuple(TASKS), repeats: int = 1
) -> SiloSpeed:
    """Time one episode of every task on one core; the best of `repeats` counts."""
    return SiloSpeed(
        law, n, {task: min(_seconds(law, task, n) for _ in range(repeats)) for task in tasks}
    )


def _seconds(law: str, task: str, n: int) -> float:
    case = Case("silo", task, n, SEED)
    chosen, substrate = plugins.get_law(law), plugins.get_substrate("silo")
    start = time.process_time()
    sync.play(substrate.open(case), chosen, case)
    return time.process_time() - start
