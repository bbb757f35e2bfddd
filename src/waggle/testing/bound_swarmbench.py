"""What free telling brings on SwarmBench, paired with private-only (see `swarmbench.ceilings`).

    rows = told_table(("pursuit",), (16, 32), range(10_000, 10_020))

Foraging has one row more, what shortest ways allow. Invariant: every reach plays the very same
cases; a row is a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from waggle.core.protocols import Case
from waggle.evaluate.stats import Interval, paired
from waggle.substrates.swarmbench.ceilings import REACHES, WALKED, play_told, walked


class ToldRow(NamedTuple):
    """One reach of telling on one task at one size."""

    task: str
    n: int
    told: str
    score: float
    above_private: Interval


def told_table(tasks: Sequence[str], sizes: Sequence[int], seeds: Sequence[int]) -> list[ToldRow]:
    """Play every reach on the same episodes and pair it with telling nobody."""
    rows = []
    for task in tasks:
        for n in sizes:
            cases = [Case("swarmbench", task, n, seed) for seed in seeds]
            scores = {told: [play_told(case, told) for case in cases] for told in REACHES}
            if task == "foraging":
                scores[WALKED] = [float(walked(case)) for case in cases]
            silent = scores["nobody"]
            for told, own in scores.items():
                gains = [a - b for a, b in zip(own, silent, strict=True)]
                rows.append(ToldRow(task, n, told, fmean(own), paired(gains, seed=seeds[0])))
    return rows
