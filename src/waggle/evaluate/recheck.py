"""Rows of rules held against today's code: some of their cells, played again.

Rows of laws with weights name the weights that played them; those of rules would have to name the
code, and all of it changes with every commit. So they are asked instead: does the cell still come
out as its row says? Cells are drawn evenly over methods, substrates and populations. Invariant:
nothing is written; which cells are drawn depends on the plan, the rows and their number alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from waggle.core.errors import WaggleError
from waggle.core.seeds import derive
from waggle.evaluate.episodes import play_cell, reason_of
from waggle.evaluate.executors import Executor
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row, failed_row
from waggle.evaluate.weights import Key

ASKED = ("calls", "tokens.input")
"""Counters of episodes in which a model was asked, here or at an endpoint."""


class Asked(NamedTuple):
    """A cell that was played again."""

    cell: Cell
    differs: tuple[str, ...]
    """What came out differently: what it is, as the row has it and as it is now."""


def rules(plan: Sequence[Cell], here: Mapping[Key, Row]) -> list[Cell]:
    """Return the finished cells in which no model was asked; their rows tell, so no law is made."""
    found = ((cell, here.get((cell.method, cell.id))) for cell in plan)
    return [cell for cell, row in found if row is not None and not _modelled(row)]


def _modelled(row: Row) -> bool:
    return bool(row.digest) or any(row.counters.get(name) for name in ASKED)


def drawn(cells: Sequence[Cell], count: int) -> list[Cell]:
    """Return so many cells, in turn from every method, substrate and population."""
    groups: dict[Any, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: derive(0, "recheck", cell.method, cell.id)):
        groups.setdefault((cell.method, cell.case.substrate, cell.case.n), []).append(cell)
    turns = zip_longest(*groups.values())
    return [cell for cell in chain.from_iterable(turns) if cell is not None][:count]


def recheck(cells: Sequence[Cell], here: Mapping[Key, Row], executor: Executor) -> Iterator[Asked]:
    """Play cells again and compare with their rows, as they come."""
    known = {(cell.method, cell.id): cell for cell in cells}
    for row in executor.map(_again, cells):
        key = row.method, row.cell
        yield Asked(known[key], tuple(_differences(here[key], row)))


def _again(cell: Cell) -> Row:
    """Play a cell; a law that can no longer be made fails its own rows and no others."""
    try:
        return play_cell((cell, None))
    except WaggleError as error:
        return failed_row(cell, reason_of(error))


def _differences(then: Row, now: Row) -> Iterator[str]:
    """Compare two rows; a score or metric of one alone is new or gone, which is no difference."""
    if now.error:
        yield f"failed now: {now.error}"
        return
    for kind in ("scores", "metrics"):
        before, after = getattr(then, kind), getattr(now, kind)
        for name in sorted(before.keys() & after.keys()):
            if before[name] != after[name]:
                yield f"{name} {_told(before[name])}, now {_told(after[name])}"
    for name in sorted(then.counters.keys() | now.counters.keys()):  # what never happened is absent
        was, is_now = then.counters.get(name, 0), now.counters.get(name, 0)
        if was != is_now:
            yield f"{name} {was}, now {is_now}"
    if then.course != now.course:
        yield "its course around the injection"


def _told(value: float | None) -> str:
    return "undefined" if value is None else f"{value:g}"
