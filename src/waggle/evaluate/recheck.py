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

from waggle.core.seeds import derive
from waggle.evaluate.episodes import law_of, options_of, play_cell
from waggle.evaluate.executors import Executor
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row
from waggle.evaluate.weights import Key

UNSTEADY = frozenset({"model_steps"})
"""Counters that depend on what shared a batch."""


class Asked(NamedTuple):
    """A cell that was played again."""

    cell: Cell
    differs: tuple[str, ...]
    """What came out differently: what it is, as the row has it and as it is now."""


def rules(plan: Sequence[Cell], here: Mapping[Key, Row]) -> list[Cell]:
    """Return the finished cells whose law needs no model."""
    kinds: dict[tuple[str, str], bool] = {}
    found = []
    for cell in plan:
        if (cell.method, cell.id) not in here:
            continue
        law = cell.law, options_of(cell)
        if law not in kinds:
            kinds[law] = not getattr(law_of(*law), "batched", False)
        if kinds[law]:
            found.append(cell)
    return found


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
    for row in executor.map(play_cell, [(cell, None) for cell in cells]):
        key = row.method, row.cell
        yield Asked(known[key], tuple(_differences(here[key], row)))


def _differences(then: Row, now: Row) -> Iterator[str]:
    """Compare what both rows have; a metric of one alone is new or gone, which is no difference."""
    if now.error:
        yield f"failed now: {now.error}"
        return
    for kind in ("scores", "metrics", "counters"):
        before, after = getattr(then, kind), getattr(now, kind)
        for name in sorted(before.keys() & after.keys() - UNSTEADY):
            if before[name] != after[name]:
                yield f"{name} {_told(before[name])}, now {_told(after[name])}"
    if then.course != now.course:
        yield "its course around the injection"


def _told(value: float | None) -> str:
    return "undefined" if value is None else f"{value:g}"
