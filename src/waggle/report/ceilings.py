"""Score and ceiling side by side: what ideal schedules reach on the very cases of a run (Silo).

The ceilings are computed again from the cases in the rows, so they cannot drift from them. They
bound the regime `directed`, except flooding, which bounds both.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report import reading
from waggle.report.reading import mean, metric
from waggle.report.tables import Group, Table, percent

_SHOWN = ("flooding", "edge-coloured", "oracle-greedy", "round-robin")
"""Schedules of `waggle bound silo` that a report prints, from the most to the least they allow."""


def ceilings(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Mean S of every method and of ideal schedules, by population and rounds of exchange."""
    silo = [row for row in rows if row.substrate == "silo" and not row.shock]
    columns = sorted({(row.n, row.rounds - 1) for row in silo})
    names = reading.methods_of(silo, recipe)
    body = []
    for name in names:
        own = [row for row in silo if row.method == name]
        cells = ([r for r in own if (r.n, r.rounds - 1) == key] for key in columns)
        shares = (percent(mean(some, metric("score"))) for some in cells)
        body.append((reading.label(recipe, name), *shares))
    for schedule in _SHOWN:
        reached = (_reached(schedule, silo, n, rounds) for n, rounds in columns)
        body.append((f"Schedule {schedule}", *reached))
    groups = (*reading.groups_of(names, recipe), Group(len(names), "Ceilings of the same cases"))
    notes = (
        "mean S (%); schedules have unlimited payload and answer with the gold of what arrived",
        *reading.provenance(silo, recipe),
    )
    head = ("method or schedule", *(f"N={n} R={rounds}" for n, rounds in columns))
    return Table("Silo scores and ceilings", head, tuple(body), notes, groups=groups)


def _reached(schedule: str, rows: Sequence[Row], n: int, rounds: int) -> str:
    from waggle.substrates.silo.ceilings import ceiling_row

    here = [row for row in rows if (row.n, row.rounds - 1) == (n, rounds)]
    tasks = list(dict.fromkeys(row.task for row in here))
    seeds = sorted({row.seed for row in here})
    return percent(ceiling_row(schedule, tasks, n, seeds, rounds).success)
