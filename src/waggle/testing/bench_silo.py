"""Silo in figures: what an episode costs, and laws beside the ceilings of the very same cases.

    speed = silo_speed()
    rows = silo_table(("expert", "round-robin"), (32,), range(10_000, 10_005))

Every law and every ceiling meets the same instances and contact graphs. Invariant: nothing here is
tuned or remembered; a row is a pure function of laws, sizes, seeds and tasks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from waggle import plugins
from waggle.core.protocols import Case
from waggle.evaluate.stats import Interval, paired
from waggle.runtime import sync
from waggle.substrates.silo.ceilings import SCHEDULES, ceiling_row
from waggle.substrates.silo.registry import TASKS

LIMIT_SECONDS = 0.25
"""Processor seconds of a 64-agent, nine-round episode with the heuristic law, mean of 30 tasks."""
SEED = 10_000
"""The first development seed."""
CONTROLS = ("round-robin", "max-offer", "random-port", "first-listed", "heuristic", "private-only")


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


@dataclass(frozen=True)
class LawRow:
    """One law at one size: means over tasks and seeds, shares in 0..1."""

    law: str
    n: int
    success: float
    strict: float
    partial: float
    matched: float
    coverage: float
    complete: float
    emissions: float
    by_level: tuple[float, ...]
    """Mean S of the levels that occur, in order."""
    above_round_robin: Interval
    """S of this law minus S of the round-robin law, paired by (task, seed)."""


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


def silo_scores(
    law: str, n: int, seeds: Sequence[int], tasks: Sequence[str] = tuple(TASKS), rounds: int = 9
) -> dict[tuple[str, int], dict[str, float]]:
    """The final scores of one law, by (task, seed)."""
    chosen, substrate = plugins.get_law(law), plugins.get_substrate("silo")
    scores = {}
    for task in tasks:
        for seed in seeds:
            case = Case("silo", task, n, seed, rounds)
            scores[task, seed] = dict(sync.play(substrate.open(case), chosen, case).scores)
    return scores


def silo_table(
    laws: Sequence[str],
    sizes: Sequence[int],
    seeds: Sequence[int],
    tasks: Sequence[str] = tuple(TASKS),
    rounds: int = 9,
) -> list[LawRow]:
    """Laws side by side, each paired with the round-robin law on the same cases."""
    rows = []
    for n in sizes:
        base = silo_scores("round-robin", n, seeds, tasks, rounds)
        for law in laws:
            own = base if law == "round-robin" else silo_scores(law, n, seeds, tasks, rounds)
            rows.append(_row(law, n, own, base))
    return rows


def _row(
    law: str,
    n: int,
    own: dict[tuple[str, int], dict[str, float]],
    base: dict[tuple[str, int], dict[str, float]],
) -> LawRow:
    mean = {name: fmean(s[name] for s in own.values()) for name in next(iter(own.values()))}
    levels = dict.fromkeys(TASKS[task].level for task, _ in own)
    return LawRow(
        law, n, mean["score"], mean["strict"], mean["partial"], mean["matched"], mean["coverage"],
        mean["complete"], mean["emissions"],
        tuple(
            fmean(s["score"] for (task, _), s in own.items() if TASKS[task].level == level)
            for level in levels
        ),
        paired([own[key]["score"] - base[key]["score"] for key in own], seed=SEED),
    )  # fmt: skip


def silo_ceilings(
    n: int, seeds: Sequence[int], tasks: Sequence[str] = tuple(TASKS), rounds: int = 9
) -> dict[str, float]:
    """Mean S of every schedule on the same cases, to print beside a law."""
    return {name: ceiling_row(name, tasks, n, seeds, rounds).success for name in SCHEDULES}
