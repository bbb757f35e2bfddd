"""Records that a law imitates beside what it learns from outcomes.

Random legal decisions teach an untrained model the format and nothing else. Decisions of the
starting law on other tasks are rehearsed, so that it keeps what it could do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from waggle import plugins
from waggle.core.protocols import Case
from waggle.core.seeds import Split, generator
from waggle.learn.config import Settings, tasks_of, training_cases
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import view_of
from waggle.runtime.sync import play
from waggle.scd.data.arrays import Rows, from_encoded
from waggle.scd.data.tokenize import ChatEncoder

RECORDS = 4_096
"""Most records of each kind that are kept."""
BATCH = 16
"""Records of an update that teaches the format."""


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


def rehearsal_cases(settings: Settings, seed: int) -> list[Case]:
    """Return cases of the rehearsed tasks, on training seeds, enough for `RECORDS` or nearly so."""
    tasks = tasks_of(settings.rehearse)
    draws = generator(seed, "rehearsal").integers(Split.DEVELOPMENT.start, size=4 * len(tasks))
    return [
        Case(task.substrate, task.task, settings.n[place % len(settings.n)], int(draw))
        for place, (task, draw) in enumerate(zip([*tasks] * 4, draws, strict=True))
    ]


def draw_rows(rows: Rows, count: int, seed: int, update: int) -> Rows:
    """Draw the records of an update."""
    picked = generator(seed, "rehearsed", update).integers(len(rows), size=count)
    return rows.take(np.asarray(picked, np.int64))


def kept(rows: Sequence[Rows], seed: int) -> Rows:
    """Put records together, and keep `RECORDS` of them drawn at random."""
    from waggle.scd.data.arrays import stack

    whole = stack(list(rows))
    order = generator(seed, "kept").permutation(len(whole))[:RECORDS]
    return whole.take(np.sort(order).astype(np.int64))
