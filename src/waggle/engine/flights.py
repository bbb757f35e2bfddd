"""Passes on their way: which rows share one, what is asked of it, and who gets the answers.

Where a device works by itself, rows enter in portions and two flights are in the air: while one is
computed, the rows of the other are read and sent off again, and those who wait are made ready.
Rows that are here at one time ride together, so who enters when says how large each is (see
`Seats.admit`).
Sending asks and never waits; only reading what was said does. Invariant: a row is in one flight at
most, and each row gets what the model said after its own tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from waggle.core.errors import WaggleError
from waggle.engine.backends.base import Backend, Rolling, Running, Said
from waggle.engine.bound_rows import ConstrainedRow
from waggle.engine.sequence import Row

PORTIONS = 4
"""Parts in which a device's rows enter: while one is run, the host makes the next one ready."""
LEAST = 32
"""Rows that are worth a part: sending prompts off takes as long as running a few."""


class Part(NamedTuple):
    """Rows whose next tokens were asked for in one way."""

    rows: list[Row]
    said: Said


Flight = list[Part]
"""One pass: its rows by the way they ask."""


def portion(rows: int, asynchronous: bool) -> int:
    """Return how many of an engine's rows enter at once: all, where nobody works meanwhile."""
    if not asynchronous or rows < LEAST:
        return rows
    return rows // max(2, min(PORTIONS, rows // LEAST))


def relate(rows: Sequence[Row]) -> None:
    """Number rows by their prefixes, which are long: they are compared here and nowhere else.

    Numbers serve to put rows side by side; those of another call may be the same by chance.
    """
    families: dict[tuple[int, ...], int] = {}
    known: dict[int, int] = {}
    for row in rows:
        prefix = row.prompt.prefix
        if id(prefix) not in known:  # mostly the very same one
            known[id(prefix)] = families.setdefault(prefix, len(families))
        row.family = known[id(prefix)]


def groups(rows: Sequence[Row], asynchronous: bool) -> list[list[Row]]:
    """Part rows into passes; those of one prefix side by side, by slot.

    Where a device works by itself rows under way ride with those that enter: a pass is saved.
    """
    heads = {row.family: row.slot for row in reversed(rows)}
    rows = sorted(rows, key=lambda row: (heads[row.family], row.slot))
    if asynchronous:
        return [rows] if rows else []
    drafted = [row for row in rows if row.cached and not row.plain]
    plain = [row for row in rows if row.cached and row.plain]
    entering = [row for row in rows if not row.cached]
    return [part for part in (drafted, plain, entering) if part]


def send(backend: Backend, rows: Sequence[Row], closing: Sequence[int]) -> Flight:
    """Run what is pending in some rows, those of a kind together, and ask what follows."""
    rows = sorted(rows, key=lambda row: row.kind)
    hidden = backend.run(
        [Running(r.slot, r.pending, r.cached, r.asked, r.prompt.prefix) for r in rows]
    )
    for row in rows:
        row.advanced()
    flight, first = [], 0
    for kind, alike in groupby(rows, key=lambda row: row.kind):
        asking = list(alike)
        last = first + sum(len(row.asked) for row in asking)
        states = hidden[first:last]  # one behind the other: no places need to be sent
        flight.append(Part(asking, _ask(backend, kind, states, asking, closing)))
        first = last
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
