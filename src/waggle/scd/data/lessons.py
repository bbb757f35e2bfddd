"""The batches of stage two, read from encoded records (see `prepare`).

Invariant: which records, images and transitions an update uses is a pure function of (seed,
update), the one that `data` defines: arms of a seed share them, a resumed run meets them again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from waggle.core.order import Order
from waggle.scd.config import StageTwo
from waggle.scd.data.arrays import Rows, pairs_of
from waggle.scd.data.prepare import Prepared
from waggle.scd.data.records import Move, Pair, Schedule, Strata


class Lesson(NamedTuple):
    """The records of one update."""

    sources: Rows
    images: Rows | None
    moves: Rows


class Lessons:
    """Deals encoded records to updates."""

    def __init__(
        self, sources: Rows, images: Rows | None, moves: Rows | None, stage: StageTwo, seed: int,
        eventful: float,
    ) -> None:  # fmt: skip
        self._sources, self._images = sources, images
        # Without transitions no row of any set is taken for one.
        self._moves = sources if moves is None else moves
        self._batch = stage.batch
        self._schedule = Schedule(len(sources), stage.batch, seed, "decisions")
        self._strata = (
            None if moves is None
            else Strata(moves.eventful.tolist(), stage.transition_batch, eventful, seed)
        )  # fmt: skip

    def lesson(self, update: int, rank: int = 0, count: int = 1) -> Lesson:
        """Return the records of an update, or one process's share of them."""
        chosen = [record for record, _ in self._schedule.batch(update)]
        places = np.arange(update * self._batch, (update + 1) * self._batch)
        images = None if self._images is None else self._images.take(places[rank::count])
        moves = [] if self._strata is None else self._strata.batch(update)
        return Lesson(
            self._sources.take(np.array(chosen, np.int64)[rank::count]),
            images,
            self._moves.take(np.array(moves, np.int64)[rank::count]),
        )

    def pairs(self, update: int) -> list[Pair]:
        """Return the decision records of an update as lists, for packed passes."""
        lesson = self.lesson(update)
        return pairs_of(lesson.sources, lesson.images)

    def moves(self, update: int) -> list[Move]:
        """Return the transitions of an update as lists."""
        return self.lesson(update).moves.moves()


def lessons(
    prepared: Prepared, stage: StageTwo, order: Order, seed: int, eventful: float
) -> Lessons:
    """Prepare all batches of a stage; in canonical order an orbit pair is one text."""
    images = prepared.images(seed, stage.updates, stage.batch) if order == "shuffled" else None
    return Lessons(
        prepared.decisions("train"), images, prepared.transitions("train"), stage, seed, eventful
    )


def bare(prepared: Prepared, stage: StageTwo, seed: int) -> Lessons:
    """Prepare the same decision batches without images and transitions, for their loss alone."""
    return Lessons(prepared.decisions("train"), None, None, stage, seed, 0.0)
