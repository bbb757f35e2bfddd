"""Scores and ceilings side by side, on the same cases: Silo, Foraging, Synchronization.

Ideal schedules bound the Silo regime `directed`, except flooding, which bounds both regimes;
shortest paths bound the food brought home in Foraging, a shared clock bounds Synchronization.
Ceilings depend on the cases only. Those of the archives in `results/` take minutes to compute and
are frozen in a file next to this one; all others are computed on demand. The file is written by

    python -m waggle.report.ceilings $(dirname results/*/recipe.json)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from waggle.core.protocols import Case
from waggle.core.seeds import derive
from waggle.evaluate.plan import Recipe, load_run
from waggle.evaluate.rows import Row, read_rows
from waggle.report import catalog
from waggle.report.layout import groups_of
from waggle.report.provenance import counted, provenance
from waggle.report.rows import Rows, grouped, mean, metric, of, shown, silo, swarmbench, unit
from waggle.report.tables import Group, Table, number, percent

FROZEN = Path(__file__).with_name("ceilings.json")
SCHEDULES = ("flooding", "edge-coloured", "oracle-greedy", "round-robin")
"""Schedules of `waggle bound silo` that a report prints, from the highest to the lowest bound."""
_SILO = ("Silo: mean S (%); schedules have unlimited payload and answer with the gold of what "
         "arrived")  # fmt: skip
_FORAGING = ("Foraging: pieces of food brought home in T rounds; shortest ways: every agent knows "
             "the map and walks as if it were alone, so crowding is not counted, nor being pushed "
             "along by others")  # fmt: skip


def ceilings(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate mean S on Silo and food brought home in Foraging, for methods and ceilings."""
    of_silo, of_food = _settings(silo(rows)), _settings(swarmbench(rows, tasks=["foraging"]))
    both = [row for own in (*of_silo.values(), *of_food.values()) for row in own]
    called = shown(both, recipe)
    body = []
    for name, text in called.items():
        shares = (percent(mean(of(own, name), metric("score"))) for own in of_silo.values())
        pieces = (number(mean(of(own, name), metric("score")), 1) for own in of_food.values())
        body.append((text, *shares, *pieces))
    none = number(None)
    for schedule in SCHEDULES if of_silo else ():
        shares = (percent(schedule_success(schedule, own)) for own in of_silo.values())
        body.append((f"Schedule {schedule}", *shares, *(none for _ in of_food)))
    if of_food:
        pieces = (number(shortest_paths(own), 1) for own in of_food.values())
        body.append(("Shortest ways", *(none for _ in of_silo), *pieces))
    groups = groups_of(list(called), recipe)
    head = (
        "method or ceiling",
        *(f"Silo N={n} R={rounds - 1}" for n, rounds in of_silo),  # the last round only answers
        *(f"Foraging N={n} T={rounds}" for n, rounds in of_food),
    )
    notes = [*([_SILO] if of_silo else []), *([_FORAGING] if of_food else [])]
    return Table(
        "Scores and ceilings", head, tuple(body), (*notes, *provenance(both, recipe)),
        groups=(*groups, Group(len(called), "Ceilings of the same cases")) if both else groups,
    )  # fmt: skip


def ceiling(rows: Rows) -> float | None:
    """Return the ceiling of cases of one task family, population and horizon, if one exists.

    In the regime `ports` every port carries a frame, so the bounding schedule is flooding.
    """
    if not rows:
        return None
    if rows[0].substrate == "silo":
        ports = rows[0].options.get("regime") == "ports"
        return schedule_success("flooding" if ports else "edge-coloured", rows)
    tasks = {row.task for row in rows}
    if tasks == {"synchronization"}:
        return shared_clock(rows)
    return shortest_paths(rows) if tasks == {"foraging"} else None


def _settings(rows: Rows) -> dict[tuple[int, int], list[Row]]:
    """Group rows by population and horizon, in sorted order."""
    found = grouped(rows, lambda row: (row.n, row.rounds))
    return {key: found[key] for key in sorted(found)}


def schedule_success(schedule: str, rows: Rows) -> float:
    """Return mean S of an ideal schedule on the Silo cases of rows that share N and horizon."""
    from waggle.substrates.silo.ceilings import ceiling_row

    tasks = list(dict.fromkeys(row.task for row in rows))
    seeds = sorted({row.seed for row in rows})
    n, rounds = rows[0].n, rows[0].rounds - 1
    return _frozen_or(
        f"silo {schedule} N={n} R={rounds}",
        [sorted(tasks), seeds],
        lambda: ceiling_row(schedule, tasks, n, seeds, rounds).success,
    )


def shortest_paths(rows: Rows) -> float:
    """Return the mean food brought home on the rows' Foraging cases if each agent walks alone."""
    from waggle.substrates.swarmbench.ceilings import walked

    return _on_maps("foraging shortest paths", rows, walked)


def shared_clock(rows: Rows) -> float:
    """Return the mean score on the rows' Synchronization cases if every agent counts rounds."""
    from waggle.substrates.swarmbench.ceilings import counted

    return _on_maps("synchronization shared clock", rows, counted)


def _on_maps(name: str, rows: Rows, bound: Callable[[Case], float]) -> float:
    """Return the mean of a bound over the SwarmBench cases of rows that share N and horizon."""
    cases = [
        Case("swarmbench", r.task, r.n, r.seed, r.rounds, options=r.options)
        for r in {unit(row): row for row in rows}.values()
    ]
    return _frozen_or(
        f"{name} N={rows[0].n} T={rows[0].rounds}",
        sorted(msgspec.json.encode(case, order="sorted").decode() for case in cases),
        lambda: fmean(map(bound, cases)),
    )


def _frozen_or(name: str, cases: Any, compute: Callable[[], float]) -> float:
    """Return the frozen ceiling of exactly these cases, else compute it."""
    digest = derive(0, "ceiling", msgspec.json.encode(cases).decode())
    key = f"{name} cases {digest:016x}"
    found = frozen().get(key)
    if found is None:
        found = compute()
        frozen()[key] = found  # computed once per process
    return found


@cache
def frozen() -> dict[str, float]:
    """Return the ceilings that are frozen or were computed in this process."""
    return read_frozen()


def read_frozen() -> dict[str, float]:
    """Read the file of frozen ceilings."""
    return msgspec.json.decode(FROZEN.read_bytes(), type=dict[str, float])


def asked(table: str) -> bool:
    """Return whether a table needs ceilings."""
    return table == "ceilings" or table.startswith("floors-")


def compute(folders: Iterable[Path]) -> None:
    """Compute every ceiling that the tables of these archives need."""
    for folder in folders:
        recipe = load_run(folder)
        rows = counted(read_rows(folder), recipe).rows
        for name in recipe.tables:
            if asked(name):
                catalog.table(name)(rows, recipe)


def freeze(folders: Iterable[Path]) -> None:
    """Rewrite the file of frozen ceilings with those of these archives."""
    frozen().clear()
    compute(folders)
    text = msgspec.json.format(msgspec.json.encode(frozen(), order="sorted"), indent=1)
    FROZEN.write_bytes(text + b"\n")


if __name__ == "__main__":
    # Tables import this module by name, so computed ceilings are cached there, not in __main__.
    from waggle.report.ceilings import freeze as freeze_all

    freeze_all(Path(name) for name in sys.argv[1:])
