"""The gain from free communication on SwarmBench, paired with private-only.

    rows = sharing_table(("pursuit",), (16, 32), range(10_000, 10_020))

The episodes are those of `swarmbench.ceilings`. Foraging has one extra row, the score that shortest
paths allow; Synchronization has only two, private-only and the score that a shared clock allows.
Invariant: every reach plays the same cases; a row is a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from waggle.core.protocols import Case
from waggle.evaluate.stats import Interval, paired
from waggle.laws.controls import PrivateOnly
from waggle.runtime.sync import play
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.ceilings import (
    COUNTED,
    REACHES,
    WALKED,
    counted,
    play_sharing,
    walked,
)


class SharingRow(NamedTuple):
    """One reach of free communication on one task at one size."""

    task: str
    n: int
    reach: str
    score: float
    above_private: Interval


def sharing_table(
    tasks: Sequence[str],
    sizes: Sequence[int],
    seeds: Sequence[int],
    rounds: int | None = None,
    side: int | None = None,
) -> list[SharingRow]:
    """Play every reach on the same episodes and pair it with the reach `nobody`.

    Args:
        tasks: tasks of SwarmBench.
        sizes: numbers of agents.
        seeds: seeds of the episodes.
        rounds: the horizon; the task's own if None.
        side: side of the map; the substrate's own if None.
    """
    options = {} if side is None else {"map": side}
    rows = []
    for task in tasks:
        for n in sizes:
            cases = [Case("swarmbench", task, n, s, rounds, options=options) for s in seeds]
            if task == "synchronization":
                scores = {"nobody": [_private(case) for case in cases]}
                scores[COUNTED] = [counted(case) for case in cases]
            else:
                scores = {reach: [play_sharing(case, reach) for case in cases] for reach in REACHES}
            if task == "foraging":
                scores[WALKED] = [float(walked(case)) for case in cases]
            silent = scores["nobody"]
            for reach, own in scores.items():
                gains = [a - b for a, b in zip(own, silent, strict=True)]
                rows.append(SharingRow(task, n, reach, fmean(own), paired(gains, seed=seeds[0])))
    return rows


def _private(case: Case) -> float:
    """Return the score of an episode in which every node takes its private proposal."""
    return play(SwarmBench().open(case), PrivateOnly(), case).scores["score"]
