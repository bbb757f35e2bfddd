"""Episodes of the benchmarks: played in shards, with a look at traffic, scores and time."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.shards.processes import Processes
from waggle import plugins
from waggle.core.protocols import Case, Law, World
from waggle.core.record import RoundRecord
from waggle.runtime.sync import native_order, native_switches
from waggle.shards.coordinator import Coordinator, ShardGroup
from waggle.shards.division import divide
from waggle.shards.inline import InlineShards
from waggle.shards.partition import Partition

SEED = 10_000
"""The first of the development seeds."""
AGREED = 0.99
"""The share of agents that hold the right claim when consensus is said to be reached."""


class Played(NamedTuple):
    """What one episode in shards showed."""

    crossing: float
    """Share of messages between two shards."""
    bytes: float
    """Of batches between shards, per agent and round."""
    messages: float
    """Per agent and round."""
    scores: list[float]
    """After every round that was played."""
    opened: float
    """Seconds until the first round began."""
    seconds: list[float]
    """Of every round."""

    @property
    def rounds(self) -> int | None:
        """After how many rounds consensus was reached; None if it was not."""
        agreed = (number for number, score in enumerate(self.scores, 1) if score >= AGREED)
        return next(agreed, None)


class _Enough(Exception):
    """What was asked for has been seen."""


def opened(case: Case) -> World:
    """Open the world of a case."""
    return plugins.get_substrate(case.substrate).open(case)


def play(
    case: Case, law: Law, shards: int = 1, partition: Partition = "grown", *,
    group: Processes | None = None, limit: float | None = None, agree: bool = False,
) -> Played:  # fmt: skip
    """Play an episode in shards of this process, or of a group.

    Args:
        case: the episode.
        law: gives its setting of the runtime, and decides where there is no group.
        shards: so many, where there is no group.
        partition: how agents are dealt to shards.
        group: plays and decides instead.
        limit: seconds after which a group begins no further round.
        agree: whether to stop as soon as consensus is reached.
    """
    scores: list[float] = []
    times: list[float] = []
    start, world = time.perf_counter(), opened(case)

    def watch(entry: RoundRecord, _: World) -> None:
        scores.append(entry.score["score"])
        times.append(time.perf_counter())
        late = limit is not None and group is not None and times[-1] - group.began > limit
        if late or (agree and scores[-1] >= AGREED):
            raise _Enough

    with TemporaryDirectory() as folder:
        division = divide(
            world, law, opened, case, shards=shards if group is None else group.size,
            folder=Path(folder), curves=True, partition=partition, order=native_order(law),
            switches=native_switches(law, world),
        )  # fmt: skip
        if group is not None:
            group.division = division
        using: ShardGroup = group or InlineShards(division, law)
        played = Coordinator(division, world, law, using, keep_every=0, watch=watch)
        began = time.perf_counter()
        with suppress(_Enough):
            played.play()
    if group is not None:
        began = group.began
    sent, crossing, size = played.traffic
    updates = case.n * len(scores)
    return Played(
        crossing / max(1, sent), size / updates, sent / updates, scores, began - start,
        [after - before for before, after in pairwise([began, *times])],
    )  # fmt: skip
