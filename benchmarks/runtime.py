"""The cost of the runtime: everything but the law, per local update, and its growth with N.

View, canon, admission, transport, expiry and record are measured; the law and building the world
are not. One thread; the figure is processor time, so that a busy machine does not distort it, and
wall time is printed beside it. The best of a few repeats is taken, because disturbances can only
slow a run down. The record is written to a temporary folder.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from waggle import plugins
from waggle.core.canon import encode_decision
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.core.schema import Decision
from waggle.runtime import sync
from waggle.runtime.records import RecordFile

LIMIT_US = 200.0
"""Limit for the microseconds per local update at N = 64."""
LIMIT_RATIO = 1.5
"""Limit for the cost per update at the large N over that at the small N."""
REFERENCE, SMALL, MIDDLE, LARGE = 64, 100, 1_000, 10_000
SEED = 10_000
"""A development seed."""


@dataclass(frozen=True)
class Cost:
    """The cost of one swarm size."""

    n: int
    updates: int
    text: bool
    """Whether the law returned decisions as JSON text that had to be parsed."""
    microseconds: float
    """Processor time per local update, without the law."""
    wall: float
    """Wall time per local update, without the law, in microseconds."""


@dataclass(frozen=True)
class RuntimeCosts:
    """Everything `waggle bench runtime` prints."""

    reference: tuple[Cost, ...]
    """N = 64, with decisions as objects and as text."""
    growth: tuple[Cost, ...]
    """N = 100, 1,000 and 10,000."""

    @property
    def ratio(self) -> float:
        """Cost per update at the largest N over that at the smallest."""
        return self.growth[-1].microseconds / self.growth[0].microseconds

    @property
    def slope(self) -> float:
        """Exponent of total cost against N: 1 is linear (least squares on logarithms)."""
        return 1.0 + _slope([(log(c.n), log(c.microseconds)) for c in self.growth])


class Clock(NamedTuple):
    """Seconds of processor and wall time."""

    processor: float
    wall: float

    def __add__(self, other: Clock) -> Clock:  # type: ignore[override]
        return Clock(self.processor + other.processor, self.wall + other.wall)

    def __sub__(self, other: Clock) -> Clock:
        return Clock(self.processor - other.processor, self.wall - other.wall)


def now() -> Clock:
    """Read both clocks."""
    return Clock(time.process_time(), time.perf_counter())


class TimedLaw:
    """A law that measures its own time, to be subtracted, and can return decisions as text."""

    def __init__(self, inner: Law, *, text: bool) -> None:
        self.name = inner.name
        self.spent = Clock(0.0, 0.0)
        self._inner = inner
        self._text = text

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Let the inner law decide and measure the time, including encoding as text."""
        start = now()
        decodes = self._inner.decide(requests)
        if self._text:
            decodes = [_spelled(decode) for decode in decodes]
        self.spent += now() - start
        return decodes


def measure(
    n: int, *, rounds: int, repeats: int, text: bool = False, substrate: str = "beacon"
) -> Cost:
    """Measure one swarm size."""
    runs = [_once(n, rounds, text, substrate) for _ in range(repeats)]
    updates, spent = min(runs, key=lambda run: run[1].processor / run[0])
    return Cost(n, updates, text, 1e6 * spent.processor / updates, 1e6 * spent.wall / updates)


def bench_runtime(*, repeats: int = 3, large: int = LARGE) -> RuntimeCosts:
    """Measure N = 64 with both forms of decisions, and the growth from N = 100 to the largest N."""
    _once(REFERENCE, 2, True, "beacon")  # warm up: imports and caches are not measured
    reference = tuple(
        measure(REFERENCE, rounds=24, repeats=repeats, text=text) for text in (False, True)
    )
    sizes = sorted({SMALL, min(MIDDLE, large), large})
    growth = tuple(measure(n, rounds=12, repeats=min(repeats, 2)) for n in sizes)
    return RuntimeCosts(reference, growth)


def _once(n: int, rounds: int, text: bool, substrate: str) -> tuple[int, Clock]:
    """Play one episode; return its number of local updates and the time without the law."""
    place = plugins.get_substrate(substrate)
    case = Case(substrate, place.tasks[0], n, SEED, rounds)
    world = place.open(case)
    law = TimedLaw(plugins.get_law("heuristic"), text=text)
    with TemporaryDirectory() as folder:
        start = now()
        with RecordFile(Path(folder) / "bench.jsonl.gz") as sink:
            footer = sync.play(world, law, case, sinks=[sink])
        spent = now() - start - law.spent
    return footer.counters["updates"], spent


def _spelled(decode: Decode) -> Decode:
    output = decode.output
    return Decode(encode_decision(output).decode()) if isinstance(output, Decision) else decode


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the least-squares slope through the points."""
    mean_x = fsum(x for x, _ in points) / len(points)
    mean_y = fsum(y for _, y in points) / len(points)
    spread = fsum((x - mean_x) ** 2 for x, _ in points)
    return fsum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
