"""One swarm in shards: what passes between them, rounds to consensus against N, and killed actors.

    python -m benchmarks.shards traffic              # by graph, partition and number of shards
    python -m benchmarks.shards consensus --largest 100000
    python -m benchmarks.shards faults --runs 20     # kill -9 of a random actor at a random moment

Episodes are those of `beacon` with the heuristic on development seeds. `faults` needs Ray, the
others play all shards in this process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from cyclopts import App

from waggle import plugins
from waggle.cli import console
from waggle.core.protocols import Case, Decode, Request, World
from waggle.core.record import RoundRecord
from waggle.core.seeds import derive, mix
from waggle.runtime.recorder import Memory
from waggle.runtime.switches import Switches
from waggle.runtime.sync import Engine
from waggle.shards.cluster import Cluster, on_ray
from waggle.shards.coordinator import Coordinator
from waggle.shards.division import divide
from waggle.shards.inline import Inline
from waggle.shards.partition import Partition

GRAPHS = ("rings", "cubic", "small-world", "geometric")
SEED = 10_000
"""The first of the development seeds."""
AGREED = 0.99
"""The share of agents that hold the right claim when consensus is said to be reached."""
SETTING: dict[str, Any] = {"order": "shuffled", "switches": Switches()}

app = App(name="benchmarks.shards", help=__doc__)


class Played(NamedTuple):
    """What one episode in shards showed."""

    crossing: float
    """Share of messages between two shards."""
    bytes: float
    """Of batches between shards, per agent and round."""
    messages: float
    """Per agent and round."""
    rounds: int | None
    """After which consensus was reached; None if it was not."""


def opened(case: Case) -> World:
    """Open the world of a case."""
    return plugins.get_substrate(case.substrate).open(case)


def play(case: Case, shards: int = 1, partition: Partition = "grown") -> Played:
    """Play an episode in shards of this process."""
    scores: list[float] = []
    law, world = plugins.get_law("heuristic"), opened(case)
    with TemporaryDirectory() as folder:
        division = divide(
            world, law, opened, case, shards=shards, folder=Path(folder), curves=True,
            partition=partition, **SETTING,
        )  # fmt: skip
        played = Coordinator(
            division, world, law, Inline(division, law), keep_every=0,
            watch=lambda entry, _: scores.append(entry.score["score"]),
        )  # fmt: skip
        played.play()
    sent, crossing, size = played.traffic
    updates = case.n * len(scores)
    agreed = (number for number, score in enumerate(scores, 1) if score >= AGREED)
    return Played(crossing / max(1, sent), size / updates, sent / updates, next(agreed, None))


@app.command
def traffic(*, n: int = 10_000, rounds: int = 12, shards: Sequence[int] = (2, 4, 16)) -> None:
    """Print what crosses between shards, by graph and partition."""
    rows = []
    for graph in GRAPHS:
        case = Case("beacon", "beacon", n, SEED, rounds, options={"graph": graph})
        for count in shards:
            grown, dealt = play(case, count), play(case, count, "dealt")
            rows.append(
                (graph, count, f"{grown.messages:.2f}", f"{grown.crossing:.1%}",
                 f"{dealt.crossing:.1%}", f"{grown.bytes:.1f}", f"{dealt.bytes:.1f}")
            )  # fmt: skip
    columns = (
        "graph", "shards", "messages per agent and round", "crossing, grown", "crossing, dealt",
        "bytes per agent and round, grown", "dealt",
    )  # fmt: skip
    console.table(f"beacon, N = {n:,}, {rounds} rounds", columns, rows, right=1)


@app.command
def consensus(
    *, largest: int = 10_000, rounds: int = 40, seeds: int = 3, scouts: float = 0.25
) -> None:
    """Print after how many rounds 99 of 100 agents hold the right claim, against N."""
    rows = []
    size = 100
    while size <= largest:
        row: list[Any] = [f"{size:,}"]
        for graph in GRAPHS[1:]:
            options = {"graph": graph, "scouts": scouts}
            found = [
                play(Case("beacon", "beacon", size, SEED + k, rounds, options=options)).rounds
                for k in range(seeds if size < 10_000 else 1)
            ]
            row.append(", ".join("none" if r is None else str(r) for r in found))
        console.say("  ".join(map(str, row)))
        rows.append(row)
        size *= 10
    title = f"Rounds until {AGREED:.0%} agree, {scouts:.0%} scouts, a seed each"
    console.table(title, ("N", *GRAPHS[1:]), rows, right=0)


class Pooled:
    """The heuristic, as a law that is asked in an actor of its own."""

    name = "heuristic"
    batched = True

    def __init__(self) -> None:
        self._law = plugins.get_law("heuristic")

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Decide as the heuristic does."""
        return self._law.decide(requests)


@app.command
def faults(*, runs: int = 20, n: int = 100, shards: int = 2) -> None:
    """Kill a random actor at a random moment of every run, and compare the records."""
    case = Case("beacon", "beacon", n, SEED, 20, shock=True)
    law, whole = Pooled(), Memory()
    Engine(opened(case), law, case, sinks=[whole], **SETTING).play()
    expected = msgspec.json.encode(whole.record())
    same = 0
    for number in range(runs):
        memory = Memory()
        with TemporaryDirectory() as folder:
            played = on_ray(
                opened(case), law, Pooled, opened, case, folder=Path(folder) / "run",
                shards=shards, **SETTING,
            )  # fmt: skip
            victim = _kill_one(played, case, derive(SEED, "faults", number))
            played.play([memory])
        equal = msgspec.json.encode(memory.record()) == expected
        same += equal
        lost = "; ".join(played.losses) or "nobody was lost"
        console.say(f"run {number}: {victim[-1]}; {lost}: {'same' if equal else 'DIFFERENT'}")
    console.say(f"{same} of {runs} end with the record of one process")


def _kill_one(played: Coordinator, case: Case, draw: int) -> list[str]:
    """Let an actor be killed within a random round; return a list that will say who was."""
    crew, at, told = played.crew, 1 + draw % ((case.rounds or 3) - 2), ["nobody was killed"]
    assert isinstance(crew, Cluster)
    seconds = [time.monotonic()]

    def watch(entry: RoundRecord, world: World) -> None:
        seconds.append(time.monotonic())
        if entry.round != at or len(told) > 1:
            return
        processes = sorted(crew.processes().items())
        name, process = processes[mix(draw, 0) % len(processes)]
        wait = (seconds[-1] - seconds[-2]) * (mix(draw, 1) % 1_000) / 1_000
        told.append(f"{name} was killed {wait * 1e3:.0f} ms after round {at}")
        threading.Timer(wait, os.kill, (process, signal.SIGKILL)).start()

    played.watch = watch
    return told


if __name__ == "__main__":
    app()
