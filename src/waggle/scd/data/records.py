"""Corpus records as training reads them: labelled views, orbit images, field targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.core import orbit
from waggle.core.order import Order, canonical
from waggle.core.schema import Decision, View
from waggle.core.seeds import derive
from waggle.core.summary import Field
from waggle.corpus.store import CorpusError, Example
from waggle.scd.heads import FIELD_WIDTHS

_TRIES = 8
"""Number of orbit elements drawn for a record before it counts as having no image."""


class LabelledView(NamedTuple):
    """A view with its teacher's decision."""

    key: str
    view: View
    decision: Decision


def labelled(examples: Iterable[Example]) -> list[LabelledView]:
    """Return the labelled views among corpus records.

    Raises:
        CorpusError: if no record is labelled.
    """
    found = [LabelledView(e.key, e.read(), e.decision) for e in examples if e.decision is not None]
    if not found:
        raise CorpusError("the corpus has no labelled record; run `waggle corpus label`")
    return found


def in_order(view: View, decision: Decision | None, order: Order) -> tuple[View, Decision | None]:
    """Return a view in a canon order, with its decision renamed to match."""
    if order == "shuffled":
        return view, decision
    shown, naming = canonical(view)
    return shown, None if decision is None else naming.decision(decision)


def image(view: View, decision: Decision, seed: int) -> tuple[View, Decision]:
    """Return an orbit image of a pair, under an element for which all local relations agree.

    Raises:
        CorpusError: if none of the drawn elements is consistent.
    """
    for attempt in range(_TRIES):
        g = orbit.sample(view, derive(seed, "orbit element", attempt))
        if orbit.consistent(view, decision, g):
            return g.view(view), g.decision(decision)
    raise CorpusError("a record has no consistent orbit image; label the corpus again")


def field_targets(field: Field) -> NDArray[np.float32]:
    """Return a field as one distribution per target, (targets, classes of the widest)."""
    rows = np.zeros((len(FIELD_WIDTHS), max(FIELD_WIDTHS.values())), np.float32)
    for row, name in zip(rows, FIELD_WIDTHS, strict=True):
        value = getattr(field, name)
        if isinstance(value, int):
            row[value] = 1.0
        else:
            row[: len(value)] = value
    return rows
