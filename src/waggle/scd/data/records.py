"""Decision and transition records ready for training, and the deterministic minibatch schedule.

Which records an update uses, and which orbit element each gets, is a pure function of (training
seed, update): arms of one seed share both, and a resumed run meets the same batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.core import orbit
from waggle.core.canon import decode_view
from waggle.core.order import Order, canonical, permutation
from waggle.core.schema import Decision, View
from waggle.core.seeds import derive
from waggle.core.summary import Field, field, rho
from waggle.corpus.store import CorpusError, Example, Transition
from waggle.scd.data.tokens import Coder
from waggle.scd.forward.forward import Encoded
from waggle.scd.heads import FIELD_WIDTHS

_TRIES = 8


class Pair(NamedTuple):
    """A decision record: the source, its orbit image (None in canonical order) and rho(d*)."""

    source: Encoded
    image: Encoded | None
    labels: tuple[int, ...]

    @property
    def sequences(self) -> list[Encoded]:
        """Return one or two sequences."""
        return [self.source] if self.image is None else [self.source, self.image]


class Move(NamedTuple):
    """A transition record: the current view, rho of the admitted decision, the next field."""

    source: Encoded
    labels: tuple[int, ...]
    target: NDArray[np.float32]
    """m(next view): a distribution per target, as `spread` lays it out."""
    eventful: bool

    @property
    def sequences(self) -> list[Encoded]:
        """Return the one sequence."""
        return [self.source]


class Labelled(NamedTuple):
    """A view with its teacher record."""

    key: str
    view: View
    decision: Decision


def labelled(examples: Iterable[Example]) -> list[Labelled]:
    """Take the labelled views out of corpus records."""
    found = [Labelled(e.key, e.read(), e.decision) for e in examples if e.decision is not None]
    if not found:
        raise CorpusError("the corpus has no labelled record; run `waggle corpus label`")
    return found


def in_order(view: View, decision: Decision | None, order: Order) -> tuple[View, Decision | None]:
    """Show a view in a canon order, its decision renamed along."""
    if order == "shuffled":
        return view, decision
    shown, naming = canonical(view)
    return shown, None if decision is None else naming.decision(decision)


def image(view: View, decision: Decision, seed: int) -> tuple[View, Decision]:
    """Return a fresh orbit image of a pair, admitted only when all local relations agree."""
    for attempt in range(_TRIES):
        g = orbit.sample(view, derive(seed, "orbit element", attempt))
        if orbit.consistent(view, decision, g):
            return g.view(view), g.decision(decision)
    raise CorpusError("a record has no consistent orbit image; label the corpus again")


class Schedule:
    """Which records an update uses: whole passes in an order drawn per pass."""

    def __init__(self, size: int, batch: int, seed: int, purpose: str) -> None:
        if size < 1:
            raise CorpusError(f"no {purpose} records to train on; build the corpus first")
        self._size, self._batch, self._seed, self._purpose = size, batch, seed, purpose
        self._orders: dict[int, list[int]] = {}

    def batch(self, update: int) -> list[tuple[int, int]]:
        """Return (record, pass) for every record of an update."""
        places = range(update * self._batch, (update + 1) * self._batch)
        return [(self._order(p // self._size)[p % self._size], p // self._size) for p in places]

    def _order(self, epoch: int) -> list[int]:
        if epoch not in self._orders:
            seed = derive(self._seed, "pass order", self._purpose, epoch)
            self._orders = {
                epoch: permutation(self._size, seed),
                **dict(list(self._orders.items())[:1]),
            }
        return self._orders[epoch]


class Decisions:
    """Makes decision batches."""

    def __init__(
        self, records: Sequence[Labelled], coder: Coder, order: Order, seed: int, *,
        batch: int, images: bool, augment: bool = False,
    ) -> None:  # fmt: skip
        self._records, self._coder, self._order, self._seed = records, coder, order, seed
        self._images = images and order == "shuffled"
        self._augment = augment and order == "shuffled"
        self._schedule = Schedule(len(records), batch, seed, "decisions")

    def batch(self, update: int) -> list[Pair]:
        """Return the records of an update, with fresh orbit images."""
        return self.pairs(self._schedule.batch(update))

    def pairs(self, chosen: Sequence[tuple[int, int]]) -> list[Pair]:
        """Encode chosen (record, pass) pairs in one call of the tokenizer."""
        shown: list[tuple[View, Decision | None]] = []
        labels = []
        for number, epoch in chosen:
            key, view, decision = self._records[number]
            labels.append(rho(view, decision).indices())
            seed = derive(self._seed, "orbit", key, epoch)
            if self._augment:
                view, decision = image(view, decision, derive(seed, "augment"))
            shown.append(in_order(view, decision, self._order))
            if self._images:
                shown.append(image(view, decision, seed))
        coded = self._coder.encode([v for v, _ in shown], [d for _, d in shown])
        if not self._images:
            return [Pair(one, None, label) for one, label in zip(coded, labels, strict=True)]
        return [Pair(coded[2 * i], coded[2 * i + 1], label) for i, label in enumerate(labels)]


def spread(target: Field) -> NDArray[np.float32]:
    """Lay a field out as one distribution per target, (targets, classes of the widest)."""
    rows = np.zeros((len(FIELD_WIDTHS), max(FIELD_WIDTHS.values())), np.float32)
    for row, name in zip(rows, FIELD_WIDTHS, strict=True):
        value = getattr(target, name)
        if isinstance(value, int):
            row[value] = 1.0
        else:
            row[: len(value)] = value
    return rows


class Strata:
    """Which transitions an update uses: so many eventful ones, then ordinary ones."""

    def __init__(self, eventful: Sequence[bool], batch: int, share: float, seed: int) -> None:
        strata = {flag: [i for i, e in enumerate(eventful) if e == flag] for flag in (True, False)}
        wanted = round(batch * share)
        if not strata[True]:
            wanted = 0
        elif not strata[False]:
            wanted = batch
        self._plans = [
            (some, Schedule(len(some), size, seed, f"transitions {name}"))
            for name, some, size in (
                ("eventful", strata[True], wanted), ("ordinary", strata[False], batch - wanted),
            )
            if size
        ]  # fmt: skip
        if not eventful:
            raise CorpusError("no transitions to train on; run `waggle corpus transitions`")

    def batch(self, update: int) -> list[int]:
        """Return the transitions of an update."""
        return [some[i] for some, plan in self._plans for i, _ in plan.batch(update)]


def encode_moves(
    records: Sequence[Transition], coder: Coder, order: Order, *, fresh: bool = False
) -> list[Move]:
    """Encode transitions; targets are computed from the next view.

    Args:
        records: the transitions.
        coder: writes views as tokens.
        order: how views are shown.
        fresh: show an orbit image, named by the record, for episodes that were played in canonical
            order: labels and targets are the same, since neither knows names or places.
    """
    views = [decode_view(bytes(t.view)) for t in records]
    if fresh:
        drawn = [
            orbit.sample(v, derive(0, "shown", t.key)) for v, t in zip(views, records, strict=True)
        ]
        shown = [g.view(v) for g, v in zip(drawn, views, strict=True)]
    else:
        shown = [in_order(v, None, order)[0] for v in views]
    coded = coder.encode(shown, [None] * len(views))
    return [
        Move(
            one,
            rho(view, t.decision).indices(),
            spread(field(decode_view(bytes(t.next)))),
            bool(t.events),
        )
        for one, view, t in zip(coded, views, records, strict=True)
    ]


def within(records: Sequence[Pair] | Sequence[Move], longest: int) -> bool:
    """Whether every sequence fits a context."""
    return all(len(s) <= longest for record in records for s in record.sequences)
