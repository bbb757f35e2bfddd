"""Several rounds of a measurement as one: every row at its fastest.

A machine that others use too is slow for seconds at a time, now under one row, now under another;
what each can do shows when it was left alone. Invariant: rows are chosen alike, whoever's they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from benchmarks.rates import Rates
from benchmarks.report import BenchReport, Cell
from benchmarks.standing import RivalRow

Row = TypeVar("Row", Cell, RivalRow)


def best_of(rounds: Sequence[BenchReport]) -> BenchReport:
    """Return the rounds' report: of every way of decoding the fastest round, and the best rates."""
    if len(rounds) == 1:
        return rounds[0]
    cells = [_cell(found) for found in _grouped([r.cells for r in rounds], lambda c: c.mode)]
    baseline = min(cell.seconds for cell in cells if cell.mode.startswith("generate"))
    rows = _grouped(
        [r.rivals for r in rounds], lambda row: (row.rival, row.precision, row.configuration)
    )
    rivals = [_row(found) for found in rows]
    known = {row.rival for row in rivals}
    return replace(
        rounds[0],
        rounds=len(rounds),
        cells=[replace(cell, speedup=baseline / cell.seconds) for cell in cells],
        rivals=[replace(row, speedup=baseline / row.seconds) for row in rivals],
        equal={mode: said for r in reversed(rounds) for mode, said in r.equal.items()},
        missing={n: why for r in rounds for n, why in r.missing.items() if n not in known},
        memory=max(r.memory for r in rounds),
        held=rounds[-1].held,
    )


def _grouped(rounds: Sequence[Sequence[Row]], key: Callable[[Row], Hashable]) -> list[list[Row]]:
    """Return the rows of all rounds by what they measure, in the order in which they came up."""
    found: dict[Hashable, list[Row]] = {}
    for row in (row for rows in rounds for row in rows):
        found.setdefault(key(row), []).append(row)
    return list(found.values())


def _cell(found: list[Cell]) -> Cell:
    return replace(_fastest(found), rates=_best(found))


def _row(found: list[RivalRow]) -> RivalRow:
    """Return the fastest of a rival's rows; one that was given up is only a bound."""
    complete = [row for row in found if row.complete]
    return replace(_fastest(complete), rates=_best(complete)) if complete else _fastest(found)


def _fastest(found: list[Row]) -> Row:
    return min(found, key=lambda row: row.seconds)


def _best(found: Sequence[Cell] | Sequence[RivalRow]) -> Rates:
    """Return the best rate of each kind: they are measured apart from each other.

    Decode by difference (see `benchmarks.rates`) looks best where reading was slow, so
    this is once more in favour of `generate` and of other libraries.
    """
    rates = [row.rates for row in found]
    return Rates(max(r.prefill for r in rates), max(r.decode for r in rates), rates[0].run)
