"""Score and ceiling side by side: what ideal schedules reach on the very cases of a run (Silo).

The ceilings are computed again from the cases in the rows, so they cannot drift from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report.tables import Table, number

_SHOWN = ("flooding", "edge-coloured", "oracle-greedy", "round-robin", "silent")
"""Schedules of `waggle bound silo` that a report prints, from the most to the least they allow."""


def ceilings(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Mean S of every method and of ideal schedules, by population and rounds of exchange."""
    from waggle.substrates.silo.ceilings import SCHEDULES, ceiling_row

    silo = [row for row in rows if row.substrate == "silo" and not row.shock]
    columns = sorted({(row.n, row.rounds - 1) for row in silo})
    body = []
    for method in recipe.methods:
        own = [row for row in silo if row.method == method]
        if own:
            body.append((method, *(_mean_cell(own, n, rounds) for n, rounds in columns)))
    for schedule in [name for name in _SHOWN if name in SCHEDULES]:
        cells = []
        for n, rounds in columns:
            here = [r for r in silo if (r.n, r.rounds - 1) == (n, rounds)]
            tasks = list(dict.fromkeys(r.task for r in here))
            seeds = sorted({r.seed for r in here})
            cells.append(number(ceiling_row(schedule, tasks, n, seeds, rounds).success))
        body.append((f"ceiling: {schedule}", *cells))
    head = ("method or schedule", *(f"N={n} R={rounds}" for n, rounds in columns))
    notes = ("mean S; schedules have unlimited payload and answer with the gold of what arrived",)
    return Table("Silo scores and ceilings", head, tuple(body), notes)


def _mean_cell(rows: Sequence[Row], n: int, rounds: int) -> str:
    found = [r.scores["score"] for r in rows if (r.n, r.rounds - 1) == (n, rounds)]
    return number(fmean(found) if found else None)
