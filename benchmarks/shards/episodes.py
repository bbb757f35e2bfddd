"""Episodes of the shard benchmarks, with measurements of traffic, scores and time."""

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
"""The first development seed."""
AGREED = 0.99
"""The share of agents that must hold the right claim for consensus."""


class Played(NamedTuple):
    """The measurements of one episode in shards."""

    crossing: float
    """Share of messages between two shards."""
    bytes: float
    """Bytes of batches between shards, per agent and round."""
    messages: float
    """Messages per agent and round."""
    scores: list[float]
    """The score after every round that was played."""
    opened: float
    """Seconds until the first round began."""
    seconds: list[float]
    """The seconds of every round."""

    @property
    def rounds(self) -> int | None:
        """Number of rounds until consensus; None if it was not reached."""
        agreed = (number for number, score in enumerate(self.scores, 1) if score >= AGREED)
        return next(agreed, None)


class _Enough(Exception):
    """Raised to stop an episode at its time limit or at consensus."""


def opened(case: Case) -> World:
    """Open the world of a case."""
    return plugins.get_substrate(case.substrate).open(case)


def play(
    case: Case, law: Law, shards: int = 1, partition: Partition = "grown", *,
    group: Processes | None = None, limit: float | None = None, agree: bool = False,
) -> Played:  # fmt: skip
    """Play an episode in shards of this process, or in those of a group of processes.

    Args:
        case: the episode.
        law: sets the order and switches of the runtime, and decides if there is no group.
        shards: number of shards if there is no group.
        partition: how agents are assigned to shards.
        group: processes that play and decide in place of this one.
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
