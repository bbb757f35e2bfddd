"""Passes on their way: which rows share one, what is asked of it, and who gets the answers.

Where a device works by itself, several flights are in the air: while one is computed, the rows of
another are read and sent off again. Invariant: a row is in one flight at most, and each row gets
what the model said after its own tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from waggle.core.errors import WaggleError
from waggle.engine.bound_rows import ConstrainedRow
from waggle.engine.passes import Backend, Rolling, Said
from waggle.engine.rows import Row

SPLIT = 32
"""Entering rows that are sent off in two halves: one is read while the other is run."""
RIDERS = 4
"""Rows under way ride with entering ones if those are so many times as many: a pass is saved."""


class Part(NamedTuple):
    """Rows whose next tokens were asked for in one way."""

    rows: list[Row]
    said: Said


Flight = list[Part]
"""One pass: its rows by the way they ask."""


def groups(rows: Sequence[Row], asynchronous: bool) -> list[list[Row]]:
    """Part rows into passes; those of one prefix side by side, by slot.

    Rows under way come first: while their answers are read, nothing else waits for them.
    """
    heads = {row.family: row.slot for row in reversed(rows)}
    rows = sorted(rows, key=lambda row: (heads[row.family], row.slot))
    drafted = [row for row in rows if row.cached and not row.plain]
    plain = [row for row in rows if row.cached and row.plain]
    entering = [row for row in rows if not row.cached]
    first = len(entering)
    if asynchronous:
        if len(entering) > RIDERS * len(drafted) > 0:
            entering, drafted = [*entering, *drafted], []
        first = len(entering) // 2 if len(entering) >= SPLIT else len(entering)
    return [part for part in (drafted, plain, entering[:first], entering[first:]) if part]


def send(backend: Backend, rows: Sequence[Row], closing: Sequence[int]) -> Flight:
    """Run what is pending in some rows and ask what follows."""
    hidden = backend.run(
        [row.slot for row in rows],
        [row.pending for row in rows],
        [row.cached for row in rows],
        [row.asked for row in rows],
        [row.prompt.prefix for row in rows],
    )
    for row in rows:
        row.advanced()
    kinds = sorted({row.kind for row in rows})
    if len(kinds) == 1:
        return [Part(list(rows), _ask(backend, kinds[0], hidden, rows, closing))]
    edges = list(accumulate((len(row.asked) for row in rows), initial=0))
    flight = []
    for kind in kinds:
        spans = zip(rows, edges, edges[1:], strict=False)
        states = hidden[[i for row, a, b in spans if row.kind == kind for i in range(a, b)]]
        chosen = [row for row in rows if row.kind == kind]
        flight.append(Part(chosen, _ask(backend, kind, states, chosen, closing)))
    return flight


def _ask(
    backend: Backend, kind: str, states: Any, rows: Sequence[Row], closing: Sequence[int]
) -> Said:
    """Ask the output layer for the wanted tokens of one kind."""
    if kind == "choice":
        bound = [row for row in rows if isinstance(row, ConstrainedRow)]
        return backend.choose(states, [offer for row in bound for offer in row.offers])
    return backend.argmax(states, closing if kind == "forced" else [])


def rolling(row: Row) -> Rolling:
    """Return a row as it is rolled."""
    return Rolling(
        row.slot,
        row.pending[0],
        len(row.prompt.prefix) + row.cached,
        row.prompt.max_new_tokens - len(row.answer),
        row.prompt.ignore_end,
    )


def sound(said: list[int]) -> list[int]:
    """Return what the model said, if it said anything.

    Raises:
        NoNumbers: where its logits were no numbers.
    """
    if said and min(said) < 0:
        raise NoNumbers(
            "the model's output is not a number: its weights are broken, or the device computes "
            "wrongly; try another device, or WAGGLE_KERNELS=torch or plain"
        )
    return said


class NoNumbers(WaggleError):
    """A model said something that is no token."""
