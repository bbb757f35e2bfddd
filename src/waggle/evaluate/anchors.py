"""Frozen N = 8 anchors of the expert, by which SwarmBench scores are normalized.

    waggle eval recipes/tables/anchors.toml --methods expert
    waggle report runs/anchors --freeze src/waggle/evaluate/anchors.json

Paper, "Population summaries": the task-normalized aggregate is the mean over Pursuit, Foraging and
Synchronization of score / anchor. Ours are the expert's means on anchor seeds; the paper's are kept
to be printed beside them. Invariant: the file is written by the command in it, never by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean

import msgspec

from waggle.core.errors import ConfigError
from waggle.core.seeds import Split
from waggle.evaluate.rows import Row

FILE = Path(__file__).with_name("anchors.json")
LAW = "expert"
N = 8
NORMALIZED = ("pursuit", "foraging", "synchronization")
"""Tasks of the aggregate."""
PAPER: Mapping[str, float] = {"pursuit": 6.20, "foraging": 3.80, "synchronization": 6.40}
"""The divisors in the paper: the means of its law at N = 8."""


class Anchors(msgspec.Struct, frozen=True, kw_only=True):
    """The expert's mean native score on every SwarmBench task at N = 8."""

    command: str
    law: str
    n: int
    seeds: tuple[int, ...]
    scores: Mapping[str, float]


@cache
def load() -> Anchors:
    """Return the frozen anchors."""
    return msgspec.json.decode(FILE.read_bytes(), type=Anchors)


def freeze(rows: Sequence[Row], command: str) -> Anchors:
    """Return the anchors of a run; refuse it unless every task has the same anchor seeds."""
    own = [r for r in rows if r.substrate == "swarmbench" and r.n == N and not r.error]
    own = [r for r in own if r.method == LAW and not r.shock]
    tasks = sorted({row.task for row in own})
    seeds = {task: tuple(sorted(r.seed for r in own if r.task == task)) for task in tasks}
    if not set(NORMALIZED) <= set(tasks) or len(set(seeds.values())) != 1:
        raise ConfigError(
            "anchors need the expert at N = 8 on the same seeds of every SwarmBench task; "
            "run `waggle eval recipes/tables/anchors.toml --methods expert`"
        )
    shared = seeds[tasks[0]]
    if any(Split.of(seed) is not Split.ANCHOR for seed in shared):
        raise ConfigError(f"anchors are frozen on anchor seeds only: {Split.ANCHOR}")
    means = {t: fmean(r.scores["score"] for r in own if r.task == t) for t in tasks}
    return Anchors(command=command, law=LAW, n=N, seeds=shared, scores=means)


def write(anchors: Anchors, path: Path) -> None:
    """Write an anchors file."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(anchors), indent=1) + b"\n")


def normalized(row: Row) -> float | None:
    """Return a SwarmBench score divided by its task's anchor; None for other substrates."""
    if row.substrate != "swarmbench":
        return None
    anchor, score = load().scores.get(row.task), row.scores.get("score")
    return score / anchor if anchor and score is not None else None


def describe() -> str:
    """Return a table note that states the divisors."""
    found = load()
    ours = ", ".join(f"{task} {found.scores[task]:.2f}" for task in NORMALIZED)
    theirs = " / ".join(f"{PAPER[task]:.2f}" for task in NORMALIZED)
    return (
        f"normalized = score / frozen N = {found.n} anchor of the {found.law} "
        f"({ours}; seeds {found.seeds[0]} to {found.seeds[-1]}; the paper's: {theirs})"
    )
