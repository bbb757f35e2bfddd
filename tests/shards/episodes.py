"""An episode dealt to shards of this process, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.shards.episodes import opened
from benchmarks.shards.same import canonical
from waggle.core.protocols import Case, Law
from waggle.runtime.recorder import Memory
from waggle.shards.coordinator import Coordinator, ShardGroup
from waggle.shards.division import Division, divide
from waggle.shards.inline import InlineShards
from waggle.shards.kept import KEY_BYTES

KEY = bytes(KEY_BYTES)


def coordinator(
    case: Case,
    law: Law,
    setting: dict[str, Any],
    folder: Path,
    shards: int = 2,
    group: Callable[[Division, Law], ShardGroup] = InlineShards,
    keep_every: int = 3,
    **more: Any,
) -> Coordinator:
    """Return the coordinator of a case that is dealt to shards."""
    world = opened(case)
    division = divide(
        world, law, opened, case, shards=shards, folder=folder, **{"key": KEY, **more}, **setting
    )
    return Coordinator(division, world, law, group(division, law), keep_every=keep_every)


def dealt(case: Case, law: Law, setting: dict[str, Any], folder: Path, **more: Any) -> bytes:
    """Play a case in shards; return the canonical form of its record."""
    memory = Memory()
    played = coordinator(case, law, setting, folder, **more)
    played.play([memory])
    played.clear()
    assert not folder.exists()
    return canonical(memory.record())
