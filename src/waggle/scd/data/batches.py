"""The records that each update trains on: schedules, batches, and their split into passes.

Invariant: the records, orbit images and transitions of an update are a pure function of (training
seed, update). Arms of one seed therefore share them, and a resumed run gets the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from waggle.core.order import permutation
from waggle.core.seeds import derive
from waggle.corpus.store import CorpusError
from waggle.scd.config import Stage
from waggle.scd.data.arrays import Index, Rows


def _fast_permutation(size: int, seed: int) -> Index:
    """Return a random permutation by numpy, for the millions of records of a token corpus."""
    return np.random.Generator(np.random.PCG64(seed)).permutation(size)


class Schedule:
    """The assignment of record indices to updates; every epoch is a new permutation."""

    def __init__(
        self, size: int, batch: int, seed: int, purpose: str, *,
        permute: Callable[[int, int], Sequence[int] | Index] = permutation,
    ) -> None:  # fmt: skip
        if size < 1:
            raise CorpusError(f"no {purpose} records to train on; build the corpus first")
        self._size, self._batch, self._seed, self._purpose = size, batch, seed, purpose
        self._permute = permute
        self._orders: dict[int, Sequence[int] | Index] = {}

    def batch(self, update: int) -> list[tuple[int, int]]:
        """Return (record, epoch) for every record of an update."""
        places = range(update * self._batch, (update + 1) * self._batch)
        return [
            (int(self._order(p // self._size)[p % self._size]), p // self._size) for p in places
        ]

    def records(self, update: int) -> Index:
        """Return the record indices of an update."""
        return np.array([record for record, _ in self.batch(update)], np.int64)

    def _order(self, epoch: int) -> Sequence[int] | Index:
        if epoch not in self._orders:
            drawn = self._permute(
                self._size, derive(self._seed, "pass order", self._purpose, epoch)
            )
            self._orders = {epoch: drawn, **dict(list(self._orders.items())[:1])}
        return self._orders[epoch]


class StratifiedSchedule:
    """The assignment of transitions to updates: a fixed number of eventful ones, then ordinary."""

    def __init__(self, eventful: Sequence[bool], batch: int, share: float, seed: int) -> None:
        if not len(eventful):
            raise CorpusError("no transitions to train on; run `waggle corpus transitions`")
        strata = {flag: [i for i, e in enumerate(eventful) if e == flag] for flag in (True, False)}
        wanted = round(batch * share)
        if not strata[True]:
            wanted = 0
        elif not strata[False]:
            wanted = batch
        self._strata = [
            (np.array(some), Schedule(len(some), size, seed, f"transitions {name}"))
            for name, some, size in (
                ("eventful", strata[True], wanted), ("ordinary", strata[False], batch - wanted),
            )
            if size
        ]  # fmt: skip

    def records(self, update: int) -> Index:
        """Return the transition indices of an update."""
        return np.concatenate([some[plan.records(update)] for some, plan in self._strata])


class Batch(NamedTuple):
    """The records of one update, or of one pass of it."""

    decisions: Rows
    images: Rows | None
    """The orbit image of every decision; None in canonical order, where it is the same text."""
    transitions: Rows


class Batches:
    """The encoded records of every update."""

    def __init__(
        self, decisions: Rows, schedule: Schedule, batch: int, *, images: Rows | None = None,
        transitions: Rows | None = None, strata: StratifiedSchedule | None = None,
    ) -> None:  # fmt: skip
        self._decisions, self._schedule, self._batch = decisions, schedule, batch
        self._images, self._transitions, self._strata = images, transitions, strata

    def batch(self, update: int, rank: int = 0, count: int = 1) -> Batch:
        """Return the records of an update, or one process's share of them."""
        chosen = self._schedule.records(update)[rank::count]
        images = transitions = None
        if self._images is not None:
            places = np.arange(update * self._batch, (update + 1) * self._batch)
            images = self._images.take(places[rank::count])
        if self._transitions is not None and self._strata is not None:
            transitions = self._transitions.take(self._strata.records(update)[rank::count])
        decisions = self._decisions.take(chosen)
        return Batch(decisions, images, none_of(decisions) if transitions is None else transitions)


def none_of(rows: Rows) -> Rows:
    """Return an empty set of the same kind."""
    return rows.take(np.zeros(0, np.int64))


def token_batches(tokens: Rows, stage: Stage, seed: int) -> Batches:
    """Return the batches of stage one on a token corpus."""
    schedule = Schedule(len(tokens), stage.batch, seed, "tokens", permute=_fast_permutation)
    return Batches(tokens, schedule, stage.batch)


def token_validation(tokens: Rows, seed: int, count: int) -> Rows:
    """Return `count` randomly drawn validation records of a token corpus."""
    return tokens.take(_fast_permutation(len(tokens), derive(seed, "validation records"))[:count])


def passes(batch: Batch, budget: int) -> Iterator[Batch]:
    """Split a batch into passes of at most `budget` tokens; a single record may exceed it."""
    decisions, images, transitions = batch
    cost = decisions.inputs if images is None else decisions.inputs + images.inputs
    for group in groups(np.concatenate((cost, transitions.inputs)), budget):
        some, others = group[group < len(decisions)], group[group >= len(decisions)]
        yield Batch(
            decisions.take(some),
            None if images is None else images.take(some),
            transitions.take(others - len(decisions)),
        )


def groups(cost: Index, budget: int) -> list[Index]:
    """Split records, in order, into groups of at most `budget` tokens; one record may exceed it."""
    if cost.sum() <= budget:
        return [np.arange(len(cost))] if len(cost) else []
    found: list[list[int]] = []
    filled = budget
    for number, each in enumerate(cost.tolist()):
        if filled + each > budget or not found:
            found.append([])
            filled = 0
        found[-1].append(number)
        filled += each
    return [np.array(group, np.int64) for group in found]
