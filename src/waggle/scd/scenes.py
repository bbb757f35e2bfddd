"""Flat passes of stage two: sources, images and transitions end to end in one row.

Invariant: a scene holds what the packed pass of the same records holds, so both give the same loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from waggle.scd.flat import Flat
from waggle.scd.flats import laid, sent
from waggle.scd.forward import Passed, flat_nll, flat_states
from waggle.scd.lessons import Lesson
from waggle.scd.model import Student
from waggle.scd.passes import Told
from waggle.scd.rows import Rows, within


class Scene(NamedTuple):
    """One pass, and what its records are held against."""

    flat: Flat
    last: Tensor
    """Place of the final local-view state of each sequence."""
    record: Tensor
    """Which sequence each predicted token belongs to."""
    told: Told
    read: int
    """Tokens of the sequences."""


def scene(lesson: Lesson, device: str) -> Scene:
    """Lay the records of a pass out on the device."""
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
    fed = np.maximum(lengths - 1, prompts)
    last = np.cumsum(fed) - fed + prompts - 1
    record = np.repeat(np.arange(len(lengths)), lengths - prompts)
    told = Told(
        len(sources), 1 if images is None else 2, sent(sources.labels, device), len(moves),
        sent(moves.labels, device), sent(moves.targets, device), sent(moves.eventful, device),
    )  # fmt: skip
    flat = Flat(**laid(ids, lengths, prompts, device=device))
    return Scene(flat, sent(last, device), sent(record, device), told, int(fed.sum()))


def passed(student: Student, shown: Scene) -> Passed:
    """Run a scene."""
    states = flat_states(student.model, shown.flat)
    nll = flat_nll(student.model, shown.flat, states)
    run = shown.flat.tokens.shape[1]
    return Passed(states.index_select(0, shown.last), nll, shown.record, run, run, run - shown.read)


def cut(lesson: Lesson, budget: int) -> Iterator[Lesson]:
    """Cut a lesson into passes of at most so many tokens; one record may exceed it."""
    sources, images, moves = lesson
    cost = sources.fed if images is None else sources.fed + images.fed
    groups = _groups(np.concatenate((cost, moves.fed)), budget)
    for group in groups:
        pairs, others = group[group < len(sources)], group[group >= len(sources)] - len(sources)
        yield Lesson(
            sources.take(pairs), None if images is None else images.take(pairs), moves.take(others)
        )


def _groups(cost: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    if cost.sum() <= budget:
        return [np.arange(len(cost))]
    groups: list[list[int]] = []
    filled = budget
    for number, each in enumerate(cost.tolist()):
        if filled + each > budget or not groups:
            groups.append([])
            filled = 0
        groups[-1].append(number)
        filled += each
    return [np.array(group, np.int64) for group in groups]


def held_out(rows: Rows, budget: int) -> Iterator[Lesson]:
    """Cut decision records into passes without images or transitions."""
    nothing = rows.take(np.zeros(0, np.int64))
    yield from cut(Lesson(rows, None, nothing), budget)
