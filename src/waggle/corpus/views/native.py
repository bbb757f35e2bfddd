"""Native views: the views of nodes in training-seed episodes of the training tasks.

Episodes are played by several laws, so that the teacher also labels states that it would not reach
itself. Invariant: only training seeds are used, and no transfer task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from waggle import plugins
from waggle.core.canon import contract_head
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Law, World
from waggle.core.record import EpisodeRecord
from waggle.core.seeds import Split, derive, require
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine

TRANSFER = frozenset(
    ("swarmbench/synchronization", "swarmbench/flocking", "swarmbench/transport", "agentsnet")
)
"""Tasks, or whole substrates, that are for evaluation only."""
TRAINING = ("swarmbench/pursuit", "swarmbench/foraging", "silo")
"""Training tasks; a substrate's name alone stands for all its tasks."""


class SeenView(NamedTuple):
    """One view as a node saw it."""

    data: bytes
    """Canonical JSON, contract included."""
    key: str


def training_tasks(names: Iterable[str]) -> list[plugins.Task]:
    """Resolve task names, refusing every transfer task.

    Raises:
        ConfigError: for a transfer task; the message names the tasks that may be used.
    """
    found: list[plugins.Task] = []
    for name in names:
        substrate, slash, _ = name.partition("/")
        known = plugins.get_substrate(substrate).tasks
        found += [plugins.find_task(name)] if slash else [plugins.Task(substrate, t) for t in known]
    for task in found:
        if task.name in TRANSFER or task.substrate in TRANSFER:
            allowed = ", ".join(TRAINING)
            raise ConfigError(f"{task.name} is a transfer task; train on {allowed}")
    return found


def play(
    task: plugins.Task, law: Law, n: int, seed: int, *, rounds: int | None = None,
    shock: bool = False, split: Split = Split.TRAIN,
) -> EpisodeRecord:  # fmt: skip
    """Play one episode and return its record; only diagnostics may use another split.

    Raises:
        SeedError: for any seed outside the split.
    """
    require(seed, split)
    case, world = open_case(Case(task.substrate, task.task, n, seed, rounds=rounds, shock=shock))
    memory = Memory()
    Engine(world, law, case, sinks=[memory]).play()
    return memory.record()


def open_case(case: Case) -> tuple[Case, World]:
    """Open a world; if its task has no late counterevidence, open it without."""
    substrate = plugins.get_substrate(case.substrate)
    try:
        return case, substrate.open(case)
    except ConfigError:
        if not case.shock:
            raise
        plain = msgspec.structs.replace(case, shock=False)
        return plain, substrate.open(plain)


def whole_view(head: bytes, raw: msgspec.Raw) -> bytes:
    """Return a recorded view with its contract restored."""
    return head + bytes(raw)[1:]


def view_head(record: EpisodeRecord) -> bytes:
    """Return the bytes that every view of a record starts with."""
    return contract_head(record.header.contract)


def sights(record: EpisodeRecord) -> Iterator[SeenView]:
    """Yield every view of a record."""
    head, case = view_head(record), record.header.case
    name = plugins.Task(case.substrate, case.task).name
    for entry in record.rounds:
        for update in entry.updates:
            key = f"{name}:{case.n}:{case.seed}:{record.header.law}:{entry.round}:{update.node}"
            yield SeenView(whole_view(head, update.view), key)


def gather(
    task: plugins.Task, count: int, *, root: int, seeds: Sequence[int], laws: Sequence[str],
    n: Sequence[int], rounds: int | None = None,
) -> list[SeenView]:  # fmt: skip
    """Collect `count` different views of a task, spread over episodes, laws, sizes and rounds."""
    found: dict[bytes, SeenView] = {}
    share = max(1, -(-count // len(seeds)))
    for i, seed in enumerate(seeds):
        if len(found) >= count:
            break
        law = plugins.get_law(laws[i % len(laws)])
        size = n[derive(root, "native n", seed) % len(n)]
        record = play(task, law, size, seed, rounds=rounds, shock=i % 2 == 1)
        distinct = {s.data: s for s in sights(record) if s.data not in found}
        drawn = sorted(distinct.values(), key=lambda s: derive(root, "native pick", s.key))
        found.update((s.data, s) for s in drawn[: min(share, count - len(found))])
    return list(found.values())
