"""Check rows of rules against the current code: play a sample of their cells again.

Rows of laws with weights store a digest of the weights. Rows of rules store none, since all code
changes with every commit; instead a sample of cells is played and compared with their rows. Cells
are drawn evenly over methods, substrates and populations; the sample depends only on the plan, the
rows and the requested number. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from waggle.core.errors import WaggleError
from waggle.core.seeds import derive
from waggle.evaluate.episodes import play_cell, reason_of
from waggle.evaluate.executors import Executor
from waggle.evaluate.plan import Cell, Key
from waggle.evaluate.rows import Row, failed_row

MODEL_COUNTERS = ("calls", "tokens.input")
"""Counters that are positive if a model was called, in this process or at an endpoint."""


class RowCheck(NamedTuple):
    """A cell that was played again."""

    cell: Cell
    differs: tuple[str, ...]
    """The differences, each with its name, the value in the row and the new value."""


def rules(plan: Sequence[Cell], here: Mapping[Key, Row]) -> list[Cell]:
    """Return the finished cells in which no model was called, according to their rows."""
    found = ((cell, here.get(cell.key)) for cell in plan)
    return [cell for cell, row in found if row is not None and not _called_a_model(row)]


def _called_a_model(row: Row) -> bool:
    return bool(row.weights) or any(row.counters.get(name) for name in MODEL_COUNTERS)


def drawn(cells: Sequence[Cell], count: int) -> list[Cell]:
    """Return `count` cells, taken in turn from every method, substrate and population."""
    groups: dict[Any, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: derive(0, "recheck", cell.method, cell.id)):
        groups.setdefault((cell.method, cell.case.substrate, cell.case.n), []).append(cell)
    turns = zip_longest(*groups.values())
    return [cell for cell in chain.from_iterable(turns) if cell is not None][:count]


def check_rows(
    cells: Sequence[Cell], here: Mapping[Key, Row], executor: Executor
) -> Iterator[RowCheck]:
    """Play cells again and yield the comparisons with their rows as they finish."""
    known = {cell.key: cell for cell in cells}
    for row in executor.map(_play, cells):
        yield RowCheck(known[row.key], tuple(_differences(here[row.key], row)))


def _play(cell: Cell) -> Row:
    """Play a cell; a law that cannot be created fails only its own rows."""
    try:
        return play_cell((cell, None))
    except WaggleError as error:
        return failed_row(cell, reason_of(error))


def _differences(then: Row, now: Row) -> Iterator[str]:
    """Yield the differences of two rows; ignore scores and metrics that only one of them has."""
    if now.error:
        yield f"failed now: {now.error}"
        return
    for kind in ("scores", "metrics"):
        before, after = getattr(then, kind), getattr(now, kind)
        for name in sorted(before.keys() & after.keys()):
            if before[name] != after[name]:
                yield f"{name} {_shown(before[name])}, now {_shown(after[name])}"
    for name in sorted(then.counters.keys() | now.counters.keys()):  # an absent counter is zero
        was, is_now = then.counters.get(name, 0), now.counters.get(name, 0)
        if was != is_now:
            yield f"{name} {was}, now {is_now}"
    if then.course != now.course:
        yield "its course around the injection"


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:g}"
