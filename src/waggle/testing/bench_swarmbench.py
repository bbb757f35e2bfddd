"""SwarmBench in figures: laws side by side on the very same episodes, and what their writes did.

    rows = law_table(("private-only", "expert"), ("pursuit",), (16,), range(10_000, 10_020))
    rows = mechanism_table("expert", ("pursuit", "foraging"), 8, range(10_000, 10_010))

Invariant: nothing here is tuned or remembered; a row is a pure function of laws, tasks, sizes and
seeds. Differences are paired by episode with the private-only law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from waggle import plugins
from waggle.core.protocols import Case
from waggle.core.record import EpisodeRecord, Footer
from waggle.evaluate import metrics
from waggle.evaluate.stats import Interval, paired
from waggle.runtime import sync
from waggle.runtime.recorder import Memory

BASE = "private-only"
LAWS = (BASE, "heuristic", "expert", "random-legal")
SEED = 10_000
"""The first development seed."""
CAUSES = "writes.suppressed."


@dataclass(frozen=True)
class LawRow:
    """One law on one task at one size: means over seeds."""

    task: str
    n: int
    law: str
    score: float
    above_private: Interval
    delivered: float
    """Delivered messages per agent."""
    candidate: float
    executed: float
    suppressed: dict[str, float]
    """Suppressed writes by cause."""


@dataclass(frozen=True)
class Activity:
    """Mean and sample deviation of one counter over the episodes of one task."""

    task: str
    name: str
    mean: float
    deviation: float


def law_table(
    laws: Sequence[str], tasks: Sequence[str], sizes: Sequence[int], seeds: Sequence[int]
) -> list[LawRow]:
    """Play every law on the same episodes and pair it with the private-only law."""
    rows = []
    for task in tasks:
        for n in sizes:
            base = [_play(BASE, task, n, seed) for seed in seeds]
            for law in laws:
                own = base if law == BASE else [_play(law, task, n, seed) for seed in seeds]
                rows.append(_row(task, n, law, own, base))
    return rows


def _play(law: str, task: str, n: int, seed: int) -> Footer:
    case = Case("swarmbench", task, n, seed)
    world = plugins.get_substrate("swarmbench").open(case)
    return sync.play(world, plugins.get_law(law), case)


def _row(task: str, n: int, law: str, own: list[Footer], base: list[Footer]) -> LawRow:
    def mean(counter: str) -> float:
        return fmean(footer.counters.get(counter, 0) for footer in own)

    gains = [a.scores["score"] - b.scores["score"] for a, b in zip(own, base, strict=True)]
    causes = sorted({c for f in own for c in f.counters if c.startswith(CAUSES)})
    return LawRow(
        task,
        n,
        law,
        fmean(footer.scores["score"] for footer in own),
        paired(gains, seed=SEED),
        mean("messages.delivered") / n,
        mean("writes.candidate"),
        mean("writes.executed"),
        {cause.removeprefix(CAUSES): mean(cause) for cause in causes},
    )


def mechanism_table(
    law: str, tasks: Sequence[str], n: int, seeds: Sequence[int], *, shock: bool = False
) -> list[Activity]:
    """Count what the writes of a law did (paper, "Mechanism activity on SwarmBench")."""
    rows = []
    for task in tasks:
        counts = [_activity(_record(law, task, n, seed, shock)) for seed in seeds]
        for name in counts[0]:
            values = [count[name] for count in counts]
            spread = stdev(values) if len(values) > 1 else 0.0
            rows.append(Activity(task, name, fmean(values), spread))
    return rows


def _record(law: str, task: str, n: int, seed: int, shock: bool) -> EpisodeRecord:
    case = Case("swarmbench", task, n, seed, shock=shock)
    memory = Memory()
    world = plugins.get_substrate("swarmbench").open(case)
    sync.play(world, plugins.get_law(law), case, sinks=[memory])
    return memory.record()


def _activity(record: EpisodeRecord) -> dict[str, float]:
    """Return the counters of the paper's mechanism tables for one episode."""
    counters = record.footer.counters
    named = {
        "candidate": "writes.candidate",
        "executed": "writes.executed",
        "repeats blocked": CAUSES + "duplicate",
        "refreshes": "writes.refreshed",
        "unverified challenges blocked": CAUSES + "unverified",
        "route relays silenced": CAUSES + "route",
        "missing trace": CAUSES + "missing",
        "lifetime": CAUSES + "lifetime",
        "zero mass": CAUSES + "zero_mass",
    }
    activity = {name: float(counters.get(key, 0)) for name, key in named.items()}
    for name, measure in (
        ("recruitment", metrics.recruitment),
        ("readiness to commit", metrics.readiness_to_commit),
        ("reopenings", metrics.reopenings),
        ("decay mass", metrics.decay_mass),
    ):
        activity[name] = measure(record) or 0.0
    activity["score"] = record.footer.scores["score"]
    return activity
