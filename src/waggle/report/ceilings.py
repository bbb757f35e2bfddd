"""Score and ceiling side by side, on the very cases of a run: Silo and SwarmBench Foraging.

The ceilings are computed again from the cases in the rows, so they cannot drift from them. Ideal
schedules bound the Silo regime `directed`, except flooding, which bounds both; shortest ways bound
what walkers bring home in Foraging.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from waggle.core.protocols import Case
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report import reading
from waggle.report.matching import shown, unit
from waggle.report.reading import mean, metric
from waggle.report.tables import Group, Table, number, percent

_SHOWN = ("flooding", "edge-coloured", "oracle-greedy", "round-robin")
"""Schedules of `waggle bound silo` that a report prints, from the most to the least they allow."""
_NONE = "—"


def ceilings(rows: Sequence[Row], recipe: Recipe) -> Table:
    """Mean S on Silo and pieces brought home in Foraging, of every method and of ceilings."""
    calm = [row for row in rows if not row.shock and not row.error]
    silo = [row for row in calm if row.substrate == "silo"]
    food = [row for row in calm if (row.substrate, row.task) == ("swarmbench", "foraging")]
    both = [*silo, *food]
    called = shown(both, recipe)
    names = list(called)
    body = [(text, *_scores(silo, food, name)) for name, text in called.items()]
    if silo:
        body += [(f"Schedule {name}", *_reached(name, silo, food)) for name in _SHOWN]
    if food:
        body.append(("Shortest ways", *(_NONE for _ in _exchanges(silo)), *_walked(food)))
    groups = reading.groups_of(names, recipe)
    if both:
        groups = (*groups, Group(len(names), "Ceilings of the same cases"))
    head = (
        "method or ceiling",
        *(f"Silo N={n} R={rounds}" for n, rounds in _exchanges(silo)),
        *(f"Foraging N={n} T={rounds}" for n, rounds in _lengths(food)),
    )
    notes = (*_notes(silo, food), *reading.provenance(both, recipe))
    return Table("Scores and ceilings", head, tuple(body), notes, groups=groups)


def _notes(silo: Sequence[Row], food: Sequence[Row]) -> list[str]:
    found = []
    if silo:
        found.append("Silo: mean S (%); schedules have unlimited payload and answer with the gold "
                     "of what arrived")  # fmt: skip
    if food:
        found.append("Foraging: pieces of food brought home in T rounds; shortest ways: every "
                     "agent knows the map and walks as if it were alone, so crowding is not "
                     "counted, nor being pushed along by others")  # fmt: skip
    return found


def _exchanges(silo: Sequence[Row]) -> list[tuple[int, int]]:
    """Populations and rounds of exchange; the last round of an episode only answers."""
    return sorted({(row.n, row.rounds - 1) for row in silo})


def _lengths(food: Sequence[Row]) -> list[tuple[int, int]]:
    return sorted({(row.n, row.rounds) for row in food})


def _scores(silo: Sequence[Row], food: Sequence[Row], method: str) -> list[str]:
    shares = [
        percent(mean([r for r in _at(silo, n, rounds + 1) if r.method == method], metric("score")))
        for n, rounds in _exchanges(silo)
    ]
    pieces = [
        number(mean([r for r in _at(food, *key) if r.method == method], metric("score")), 1)
        for key in _lengths(food)
    ]
    return shares + pieces


def _at(rows: Sequence[Row], n: int, rounds: int) -> list[Row]:
    return [row for row in rows if (row.n, row.rounds) == (n, rounds)]


def _reached(schedule: str, silo: Sequence[Row], food: Sequence[Row]) -> list[str]:
    from waggle.substrates.silo.ceilings import ceiling_row

    found = []
    for n, rounds in _exchanges(silo):
        here = _at(silo, n, rounds + 1)
        tasks = list(dict.fromkeys(row.task for row in here))
        seeds = sorted({row.seed for row in here})
        found.append(percent(ceiling_row(schedule, tasks, n, seeds, rounds).success))
    return [*found, *(_NONE for _ in _lengths(food))]


def _walked(food: Sequence[Row]) -> list[str]:
    from waggle.substrates.swarmbench.ceilings import walked

    found = []
    for key in _lengths(food):
        cases = {unit(row): row for row in _at(food, *key)}.values()
        most = (
            walked(Case("swarmbench", "foraging", r.n, r.seed, r.rounds, options=r.options))
            for r in cases
        )
        found.append(number(fmean(most), 1))
    return found
