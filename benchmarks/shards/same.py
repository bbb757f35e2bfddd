"""Does Ray give the record of the synchronous engine? `python -m benchmarks.shards same`.

Plays every graph world with three laws under perturbations, ablations and late counterevidence, on
Ray with one, two and four shards, and compares the canonical form of the records byte for byte.
`tiny` is a random law with weights that runs in two separate actors; it has fewer rows, because one
of its decisions takes tens of milliseconds on a CPU. The number of model steps of an answer depends
on the rest of its batch, so only that count is left out. The actors are reused for all episodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from benchmarks.shards.episodes import opened
from waggle import plugins
from waggle.cli import console
from waggle.core.errors import WaggleError
from waggle.core.protocols import Case, Law
from waggle.core.record import EpisodeRecord
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine, native_order, native_switches
from waggle.shards.cluster import Cluster
from waggle.shards.coordinator import Coordinator
from waggle.shards.division import Division, divide

BEACON = Case("beacon", "beacon", 24, 10_001, 16, shock=True)
SILO = Case("silo", "III-26", 16, 10_001, 12, shock=True)
PORTS = Case("silo", "II-11", 16, 10_001, options={"regime": "ports", "cap": 128})
COLORING = Case("agentsnet", "coloring", 16, 10_001)
LEADER = Case("agentsnet", "leader_election", 16, 10_002)
WORLDS = (BEACON, SILO, PORTS, COLORING, LEADER)
LAWS = ("heuristic", "expert", "random-legal")
TINY = "tiny"
ROUGH = Perturbation(delay=1, loss=0.1, churn=0.2, arrivals=0.1, byzantine=0.2, attack="lie")
REGIMES: Mapping[str, dict[str, Any]] = {
    "none": {},
    "delay": {"perturbation": Perturbation(delay=2)},
    "loss": {"perturbation": Perturbation(loss=0.2)},
    "churn": {"perturbation": Perturbation(churn=0.2)},
    "departures and arrivals": {"perturbation": Perturbation(departures=0.2, arrivals=0.2)},
    "lies": {"perturbation": Perturbation(byzantine=0.2, attack="lie")},
    "spam": {"perturbation": Perturbation(byzantine=0.2, attack="spam")},
    "collusion": {"perturbation": Perturbation(byzantine=0.2, attack="collude")},
    "many at a time": {"perturbation": ROUGH},
    "no decay": {"decay": False},
    "no conflict": {"conflict": False},
    "no reversal": {"reversible": False},
    "repeats": {"repeats": True},
}
"""Changes to the runtime: a perturbation or a switch."""


def made(name: str) -> Law:
    """Return a law by its name in this module."""
    if name != TINY:
        return plugins.get_law(name)
    return plugins.get_law("zero-shot-constrained", model="tiny-random", device="cpu")


def settings(
    case: Case, law: Law, perturbation: Perturbation | None = None, **switches: Any
) -> dict[str, Any]:
    """Return the settings of the runtime for a law: order, switches and perturbation."""
    native = native_switches(law, opened(case))
    return {
        "order": native_order(law),
        "switches": replace(native, **switches) if switches else native,
        "perturbation": perturbation or Perturbation(),
    }


def whole(case: Case, law: Law, setting: dict[str, Any]) -> EpisodeRecord:
    """Play a case in one process."""
    memory = Memory()
    Engine(opened(case), law, case, sinks=[memory], **setting).play()
    return memory.record()


def canonical(record: EpisodeRecord) -> bytes:
    """Return the canonical bytes of a record, without the counts of model steps."""
    rounds = tuple(
        replace(
            entry,
            updates=tuple(
                replace(update, usage=replace(update.usage, model_steps=0))
                for update in entry.updates
            ),
        )
        for entry in record.rounds
    )
    counters = {k: v for k, v in record.footer.counters.items() if k != "model_steps"}
    footer = replace(record.footer, counters=counters)
    return msgspec.json.encode(EpisodeRecord(record.header, rounds, footer))


class Staying(Cluster):
    """Actors that are reused for the next episode; starting them takes longer than a small one."""

    shards: ClassVar[list[Any]] = []
    pools: ClassVar[dict[str, list[Any]]] = {}

    def __init__(self, division: Division, law: Law, make: Callable[[], Law]) -> None:
        super().__init__(division, law, make, pool=2)
        for own, others in self._stayed():
            own[: len(others)] = others[: len(own)]

    def close(self) -> None:
        """Store the actors for the next episode."""
        for own, others in self._stayed():
            others[: len(own)] = own

    def _stayed(self) -> list[tuple[list[Any], list[Any]]]:
        """Return this cluster's lists of actors, each paired with the list of reused actors."""
        pool = self.pools.setdefault(self._law.name, [])
        return [(self._shards, self.shards), (self._pool, pool)]


def on_ray(
    case: Case, law: Law, make: Callable[[], Law], shards: int, setting: dict[str, Any]
) -> EpisodeRecord:
    """Play a case on Ray."""
    memory, world = Memory(), opened(case)
    with TemporaryDirectory() as folder:
        division = divide(world, law, opened, case, shards=shards, folder=Path(folder), **setting)
        Coordinator(division, world, law, Staying(division, law, make)).play([memory])
    return memory.record()


def differences(case: Case, law: str, regimes: Sequence[str], shards: Sequence[int]) -> list[str]:
    """Play a world and a law under regimes; return a line for each record of Ray that differs."""
    found, decides, make = [], made(law), partial(made, law)
    for regime in regimes:
        setting = settings(case, decides, **REGIMES[regime])
        expected = canonical(whole(case, decides, setting))
        for count in shards:
            record = on_ray(case, decides, make, count, setting)
            if canonical(record) != expected:
                found.append(f"{case.task}, {law}, {regime}, {count} shards")
    return found


def same(
    *, laws: Sequence[str] = (*LAWS, TINY), regimes: Sequence[str] = tuple(REGIMES),
    shards: Sequence[int] = (1, 2, 4),
) -> None:  # fmt: skip
    """Compare the records of Ray and of the synchronous engine; fail on a difference.

    Args:
        laws: Laws to play with; `tiny` has weights.
        regimes: Perturbations and ablations, by their names in `REGIMES`.
        shards: Numbers of shards.
    """
    rows, wrong = [], list[str]()
    for case in WORLDS:
        for law in laws:
            start, some, under = time.perf_counter(), case, regimes
            if law == TINY:
                some, under = replace(case, n=8, rounds=4), ("none", "many at a time")
            found = differences(some, law, under, shards)
            compared = len(under) * len(shards)
            equal = f"{compared - len(found)} of {compared}"
            rows.append((f"{case.substrate}/{case.task}", law, equal))
            console.note(f"{rows[-1]}, {time.perf_counter() - start:.0f} s")
            wrong += found
    console.table("Records of Ray that are those of one process", ("world", "law", "same"), rows)
    if wrong:
        raise WaggleError(f"{len(wrong)} records differ: {'; '.join(wrong[:5])}")
