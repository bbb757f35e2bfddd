"""What free communication brings on SwarmBench, paired with private-only.

    rows = sharing_table(("pursuit",), (16, 32), range(10_000, 10_020))

The episodes are those of `swarmbench.ceilings`. Foraging has one row more, what shortest paths
allow. Invariant: every reach plays the same cases; a row is a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from waggle.core.protocols import Case
from waggle.evaluate.stats import Interval, paired
from waggle.substrates.swarmbench.ceilings import REACHES, WALKED, play_sharing, walked


class SharingRow(NamedTuple):
    """One reach of free communication on one task at one size."""

    task: str
    n: int
    reach: str
    score: float
    above_private: Interval


def sharing_table(
    tasks: Sequence[str], sizes: Sequence[int], seeds: Sequence[int]
) -> list[SharingRow]:
    """Play every reach on the same episodes and pair it with the reach `nobody`."""
    rows = []
    for task in tasks:
        for n in sizes:
            cases = [Case("swarmbench", task, n, seed) for seed in seeds]
            scores = {reach: [play_sharing(case, reach) for case in cases] for reach in REACHES}
            if task == "foraging":
                scores[WALKED] = [float(walked(case)) for case in cases]
            silent = scores["nobody"]
            for reach, own in scores.items():
                gains = [a - b for a, b in zip(own, silent, strict=True)]
                rows.append(SharingRow(task, n, reach, fmean(own), paired(gains, seed=seeds[0])))
    return rows
