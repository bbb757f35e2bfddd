"""The same episode from one process and from shards, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from waggle import plugins
from waggle.core.protocols import Case, Law, World
from waggle.core.record import EpisodeRecord
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine, native_order, native_switches
from waggle.shards.coordinator import Coordinator, Crew
from waggle.shards.division import Division, divide
from waggle.shards.inline import Inline

BEACON = Case("beacon", "beacon", 24, 10_001, 16, shock=True)
SILO = Case("silo", "III-26", 16, 10_001, 12, shock=True)
PORTS = Case("silo", "II-11", 16, 10_001, options={"regime": "ports", "cap": 128})
COLORING = Case("agentsnet", "coloring", 16, 10_001)
LEADER = Case("agentsnet", "leader_election", 16, 10_002)
WORLDS = (BEACON, SILO, PORTS, COLORING, LEADER)
LAWS = ("heuristic", "expert", "random-legal")
ROUGH = Perturbation(delay=1, loss=0.1, churn=0.2, arrivals=0.1, byzantine=0.2, attack="lie")


def opened(case: Case) -> World:
    """Open the world of a case."""
    return plugins.get_substrate(case.substrate).open(case)


def settings(
    case: Case, law: Law, perturbation: Perturbation | None = None, **switches: Any
) -> dict[str, Any]:
    """Return how the runtime is set for a law."""
    native = native_switches(law, opened(case))
    return {
        "order": native_order(law),
        "switches": msgspec.structs.replace(native, **switches) if switches else native,
        "perturbation": perturbation or Perturbation(),
    }


def whole(case: Case, law: Law, setting: dict[str, Any]) -> EpisodeRecord:
    """Play a case in one process."""
    memory = Memory()
    Engine(opened(case), law, case, sinks=[memory], **setting).play()
    return memory.record()


def coordinator(
    case: Case,
    law: Law,
    setting: dict[str, Any],
    folder: Path,
    shards: int = 2,
    crew: Callable[[Division, Law], Crew] = Inline,
    keep_every: int = 3,
    **more: Any,
) -> Coordinator:
    """Return the coordinator of a case that is dealt to shards."""
    world = opened(case)
    division = divide(world, law, opened, case, shards=shards, folder=folder, **more, **setting)
    return Coordinator(division, world, law, crew(division, law), keep_every=keep_every)


def dealt(case: Case, law: Law, setting: dict[str, Any], folder: Path, **more: Any) -> bytes:
    """Play a case in shards; return the canonical form of its record."""
    memory = Memory()
    played = coordinator(case, law, setting, folder, **more)
    played.play([memory])
    played.clear()
    assert not folder.exists()
    return canonical(memory.record())


def canonical(record: EpisodeRecord) -> bytes:
    """Return the bytes of a record."""
    return msgspec.json.encode(record)
