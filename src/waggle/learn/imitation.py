"""Records that a law imitates in addition to learning from outcomes.

Random legal decisions teach an untrained model only the format. Decisions of the starting law on
other tasks are rehearsed, against forgetting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.core.seeds import Split, generator
from waggle.learn.config import Settings, tasks_of, training_cases
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import view_of
from waggle.runtime.sync import play
from waggle.scd.data.arrays import Rows, from_encoded, stack
from waggle.scd.data.tokenize import ChatEncoder

RECORDS = 8_192
"""Maximum number of records that are kept."""
BATCH = 16
"""Records per update that teaches the format."""


def random_records(settings: Settings, tokenizer: Any, order: Any, seed: int) -> Rows:
    """Return views of the tasks with random legal decisions."""
    encoder = ChatEncoder(tokenizer)
    law = plugins.get_law("random-legal")
    enough = min(RECORDS, BATCH * settings.grammar_updates)
    views, decisions = [], []
    for case in _endless(settings, seed):
        memory = Memory()
        world = plugins.get_substrate(case.substrate).open(case)
        play(world, law, case, order=order, sinks=[memory])
        record = memory.record()
        for entry in record.rounds:
            views += [view_of(record.header, update) for update in entry.updates]
            decisions += [update.decision for update in entry.updates]
        if len(views) >= enough:
            break
    encoded = encoder.encode(views[:enough], decisions[:enough])
    return from_encoded(encoded, [()] * len(encoded))


def _endless(settings: Settings, seed: int) -> Iterator[Case]:
    batch = 0
    while True:
        yield from training_cases(settings, seed, batch)
        batch += 1


def rehearsal_cases(settings: Settings, seed: int) -> list[list[Case]]:
    """Return cases to rehearse, on training seeds, for every name and size.

    The task of each case is drawn from those of the name. There are at least two cases, and they
    have twice as many decisions as will be kept.
    """
    found = []
    for name in settings.rehearse:
        tasks = tasks_of((name,))
        for n in settings.rehearse_n or settings.n:
            draws = generator(seed, "rehearsal", name, n)
            cases: list[Case] = []
            decisions = 0
            while len(cases) < 2 or decisions < 2 * _part(settings):
                task = tasks[int(draws.integers(len(tasks)))]
                drawn = int(draws.integers(Split.DEVELOPMENT.start))
                cases.append(Case(task.substrate, task.task, n, drawn))
                decisions += n * plugins.get_substrate(task.substrate).open(cases[-1]).rounds
            found.append(cases)
    return found


def _part(settings: Settings) -> int:
    """Return how many records of each rehearsed name and size are kept."""
    return RECORDS // (len(settings.rehearse) * len(settings.rehearse_n or settings.n))


def draw_rows(rows: Rows, count: int, seed: int, update: int) -> Rows:
    """Draw the records of an update."""
    picked = generator(seed, "rehearsed", update).integers(len(rows), size=count)
    return rows.take(np.asarray(picked, np.int64))


def kept(rows: Sequence[Rows], settings: Settings, seed: int) -> Rows:
    """Keep equally many records of every name and size, drawn at random.

    Raises:
        ConfigError: if the starting law has no records to rehearse.
    """
    if not all(map(len, rows)):
        raise ConfigError(
            "the start decides nothing readable in a task of `rehearse`; leave that task out"
        )
    some = []
    for place, part in enumerate(rows):
        order = generator(seed, "kept", place).permutation(len(part))[: _part(settings)]
        some.append(part.take(np.sort(order).astype(np.int64)))
    return stack(some)
