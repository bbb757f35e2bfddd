"""Flat passes of stage two: sources, images and transitions end to end in one row.

Invariant: a scene holds what the packed pass of the same records holds, so both give the same loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from waggle.scd.data.arrays import Rows, groups, within
from waggle.scd.data.flats import laid, sent
from waggle.scd.data.lessons import Lesson
from waggle.scd.forward.flat import Flat
from waggle.scd.forward.forward import Passed, flat_nll, flat_states
from waggle.scd.model import Student
from waggle.scd.train.passes import Told


class Scene(NamedTuple):
    """One pass, and what its records are held against."""

    flat: Flat
    told: Told


def scene(lesson: Lesson, device: str, *, fixed: bool = False, tree: bool = False) -> Scene:
    """Lay the records of a pass out on the device; `fixed` and `tree` as in `laid`."""
    sources, images, moves = lesson
    parts = [sources, moves] if images is None else [sources, images, moves]
    ids, lengths, prompts = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("ids", "lengths", "prompts")
    )
    if images is not None:
        # source, image, source, image, ...: as packed passes have them.
        n = len(sources)
        order = np.arange(len(lengths))
        order[: 2 * n : 2], order[1 : 2 * n : 2] = np.arange(n), np.arange(n, 2 * n)
        starts = (np.cumsum(lengths) - lengths)[order]
        lengths, prompts = lengths[order], prompts[order]
        ids = ids[within(starts, lengths)]
    told = Told(
        len(sources), 1 if images is None else 2, sent(sources.labels, device), len(moves),
        sent(moves.labels, device), sent(moves.targets, device), sent(moves.eventful, device),
    )  # fmt: skip
    return Scene(laid(ids, lengths, prompts, device=device, fixed=fixed, tree=tree), told)


def passed(student: Student, flat: Flat) -> Passed:
    """Run a flat pass."""
    states = flat_states(student.model, flat)
    nll = flat_nll(student.model, flat, states)
    hidden = states.index_select(0, flat.last)
    return Passed(hidden, nll, flat.record, flat.run, flat.run, flat.run - flat.filled)


def cut(lesson: Lesson, budget: int) -> Iterator[Lesson]:
    """Cut a lesson into passes of at most so many tokens; one record may exceed it."""
    sources, images, moves = lesson
    cost = sources.fed if images is None else sources.fed + images.fed
    for group in groups(np.concatenate((cost, moves.fed)), budget):
        pairs, others = group[group < len(sources)], group[group >= len(sources)] - len(sources)
        yield Lesson(
            sources.take(pairs), None if images is None else images.take(pairs), moves.take(others)
        )


def held_out(rows: Rows, budget: int) -> Iterator[Lesson]:
    """Cut decision records into passes without images or transitions."""
    nothing = rows.take(np.zeros(0, np.int64))
    yield from cut(Lesson(rows, None, nothing), budget)
