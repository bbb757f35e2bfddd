"""Is the record the same when actors are killed? `python -m benchmarks.shards faults`.

Kills one actor, a random shard or the law, with SIGKILL at a random moment of every run.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.shards.episodes import SEED, opened
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

SETTING: dict[str, Any] = {"order": "shuffled", "switches": Switches()}


class Pooled:
    """The heuristic law, marked as batched so that it runs in a separate actor."""

    name = "heuristic"
    batched = True

    def __init__(self) -> None:
        self._law = plugins.get_law("heuristic")

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Decide as the heuristic does."""
        return self._law.decide(requests)


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
    """Schedule the kill of a random actor after a random round; return a list of such events."""
    group, at, events = played.group, 1 + draw % ((case.rounds or 3) - 2), ["nobody was killed"]
    assert isinstance(group, Cluster)
    seconds = [time.monotonic()]

    def watch(entry: RoundRecord, world: World) -> None:
        seconds.append(time.monotonic())
        if entry.round != at or len(events) > 1:
            return
        processes = sorted(group.processes().items())
        name, process = processes[mix(draw, 0) % len(processes)]
        wait = (seconds[-1] - seconds[-2]) * (mix(draw, 1) % 1_000) / 1_000
        events.append(f"{name} was killed {wait * 1e3:.0f} ms after round {at}")
        threading.Timer(wait, os.kill, (process, signal.SIGKILL)).start()

    played.watch = watch
    return events
