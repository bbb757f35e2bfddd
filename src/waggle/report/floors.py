"""Floors and ceilings of the same cases, and whether the law makes a difference at all.

One table per substrate, with a column for every task or level at every population. Floors are laws
without task knowledge: random records, one constant answer, private proposals alone, the first port
listed, and `relay`, which sends what it observes and forwards what it receives. If the best law is
not resolved above the best of `relay`, `private-only` and `constant`, the score of that column is
due to the task, the adapter and the runtime, not to the law. The table states this.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval
from waggle.report.ceilings import ceiling
from waggle.report.layout import groups_of
from waggle.report.provenance import provenance
from waggle.report.rows import (
    Name,
    Rows,
    Value,
    difference,
    grouped,
    label,
    levels_of,
    macro,
    matched,
    methods_of,
    metric,
    of,
    options_of,
    short,
    shown,
    unit,
)
from waggle.report.tables import SPLIT, Group, Span, Table, bracketed, number

RELAY = "relay"
COMPARED = (RELAY, "private-only", "constant")
"""The floors that the best law is compared with: with the best of them in each column."""
FLOORS = ("random-legal", "constant", "private-only", "nocomm", "first-listed", RELAY)
"""Laws without task knowledge, in order of how much they do."""
NO_DIFFERENCE, BELOW = "the law makes no difference here", "the best law is below the floor"
CONTRASTS = (("expert", RELAY), ("expert", "fixedswarm"))
"""Pairs of laws whose paired differences are always shown."""
QUESTION = "Does the law make a difference?"
_NOTES = (
    "mean score, tasks weighing the same; differences are paired, with 95 % intervals of the "
    "bootstrap over matched cases within tasks",
    f"{NO_DIFFERENCE}: the interval of the best law minus the best of {', '.join(COMPARED)} "
    "includes zero; the best law is the one with the highest mean that has played all cases, "
    "floors left out",
)


_SCHEDULE = (
    "ceiling: an edge-coloured schedule of exchanges with unlimited payload, which is no bound; in "
    "the regime `ports` flooding, which is one"
)


class Column(NamedTuple):
    """One task or level at one population."""

    over: str
    text: str
    rows: list[Row]


def floors_silo(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate Silo by setting: all tasks and every level, in per cent."""
    columns = []
    for over, here in _silo(rows):
        columns.append(Column(over, "all", here))
        for level in levels_of(here):
            some = [row for row in here if row.task.partition("-")[0] == level]
            columns.append(Column(over, f"Level {level}", some))
    table = _table("Silo: floors, laws and ceiling, mean S (%)", columns, recipe, 1, 100.0)
    return table._replace(notes=(_SCHEDULE, *table.notes))


def floors_swarmbench(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate SwarmBench by task and population, raw scores."""
    columns = _swarmbench(rows)
    return _table("SwarmBench: floors, laws and ceiling, raw scores", columns, recipe, 2, 1.0)


def floors_agentsnet(rows: Rows, recipe: Recipe) -> Table:
    """Tabulate AgentsNet with priorities by task and population, solved fraction in per cent."""
    return _table("AgentsNet: floors and laws, solved (%)", _agentsnet(rows), recipe, 1, 100.0)


def settings_of(rows: Rows) -> list[tuple[str, list[Row]]]:
    """Return the named settings of one substrate: all Silo tasks together, other tasks singly."""
    if rows[0].substrate == "silo":
        return [(f"Silo {over}", own) for over, own in _silo(rows)]
    find = {"swarmbench": _swarmbench, "agentsnet": _agentsnet}.get(rows[0].substrate)
    columns = find(rows) if find else _by_task(rows, lambda row: "")
    return [(f"{column.over} {column.text}", column.rows) for column in columns]


def _silo(rows: Rows) -> list[tuple[str, list[Row]]]:
    own = [row for row in rows if row.substrate == "silo" and not row.shock]
    return [
        # the last round only answers
        (f"N={n}, R={rounds - 1}" + (f", {cap} bytes" if cap else ""), here)
        for (n, rounds, cap), here in sorted(grouped(own, _setting).items(), key=lambda i: i[0])
    ]


def _swarmbench(rows: Rows) -> list[Column]:
    own = [row for row in rows if row.substrate == "swarmbench" and not row.shock]
    horizons = {(row.task, row.rounds, options_of(row.options)) for row in own}
    several = {task for task, _, _ in horizons if sum(task == other[0] for other in horizons) > 1}

    def setting(row: Row) -> str:
        if row.task not in several:
            return ""
        return ", ".join(filter(None, (f", T={row.rounds}", options_of(row.options))))

    return _by_task(own, setting)


def _agentsnet(rows: Rows) -> list[Column]:
    nets = [row for row in rows if row.substrate == "agentsnet" and not row.options.get("goal")]
    return _by_task([row for row in nets if row.options.get("priority", True)], lambda row: "")


def _setting(row: Row) -> tuple[int, int, int]:
    return row.n, row.rounds, int(row.options.get("cap", 0))


def _by_task(rows: Rows, setting: Name) -> list[Column]:
    """Return a column for every combination of task, population and setting."""
    found = grouped(rows, lambda row: (row.task, row.n, setting(row)))
    return [
        Column(spoken(task), f"N={n}{text}", own)
        for (task, n, text), own in sorted(found.items(), key=lambda item: item[0])
    ]


def spoken(task: str) -> str:
    """Return the name of a task in the form of a heading."""
    return task.replace("_", " ").capitalize()


def _table(
    title: str, columns: Sequence[Column], recipe: Recipe, digits: int, scale: float
) -> Table:
    """Return a table with methods as rows (floors first), then ceiling, differences and verdict."""
    # The columns of all tasks and of single levels share rows; count each row once.
    rows = list({row.key: row for column in columns for row in column.rows}.values())
    called = shown(rows, recipe)
    floors = [name for law in FLOORS for name in called if recipe.methods[name].law == law]
    laws = [name for name in called if name not in floors]

    def scaled(value: float | None) -> str:
        return number(None if value is None else scale * value, digits)

    def gain(interval: Interval | None) -> str:
        return bracketed(interval, f"+.{digits}f", scale=scale)

    scores = [
        (called[name], *(scaled(macro(of(each.rows, name), metric("score"))) for each in columns))
        for name in (*floors, *laws)
    ]
    ceilings = [("Ceiling", *(scaled(ceiling(each.rows)) for each in columns))]
    differences = []
    for mine, theirs in CONTRASTS:
        one, two = plain(mine, rows, recipe), plain(theirs, rows, recipe)
        if one and two:
            text = f"{label(recipe, one)} minus {label(recipe, two)}"
            differences.append((text, *(gain(_gain(each.rows, one, two)) for each in columns)))
    best = [best_gain(each.rows, recipe) for each in columns]
    gains = (f"{label(recipe, law)} {gain(over)}" if law else gain(None) for law, over in best)
    differences.append(("Best law minus the best floor", *gains))
    differences.append((QUESTION, *(_answer(over) for _, over in best)))
    groups = [
        *([Group(0, "Floors")] if floors else []),
        *(Group(len(floors) + at, text) for at, text in groups_of(laws, recipe)),
        Group(len(scores), "Ceiling of the same cases"),
        Group(len(scores) + len(ceilings), "Paired differences"),
    ]
    return Table(
        title, ("method", *(each.text for each in columns)),
        (*scores, *ceilings, *differences),
        (*_NOTES, *provenance(rows, recipe)), _spans(columns), tuple(groups),
        tail=len(ceilings) + len(differences),
    )  # fmt: skip


def _spans(columns: Sequence[Column]) -> tuple[Span, ...]:
    overs = list(dict.fromkeys(column.over for column in columns))
    return (Span("", 1), *(Span(text, sum(c.over == text for c in columns)) for text in overs))


def plain(law: str, rows: Rows, recipe: Recipe) -> str | None:
    """Return the method that plays a law in the unchanged runtime, if it has rows."""
    for name in methods_of(rows, recipe):
        spec = recipe.methods[name]
        if spec.law == law and not spec.altered:
            return name
    return None


def _gain(rows: Rows, mine: str, theirs: str, value: Value | None = None) -> Interval | None:
    return difference(of(rows, mine), of(rows, theirs), value or metric("score"))


def best_floor(rows: Rows, recipe: Recipe, value: Value) -> str | None:
    """Return the method of the best floor of `COMPARED`; None if `relay` was not played.

    With late counterevidence a floor that never holds the refuted claim is left out: it cannot
    recover, by definition. If that leaves none, any other floor is taken.
    """
    if plain(RELAY, rows, recipe) is None:
        return None
    able = {
        law: name
        for law in FLOORS
        if (name := plain(law, rows, recipe)) and not _never_holds(of(rows, name))
    }
    names = [able[law] for law in COMPARED if law in able] or list(able.values())
    if not names:
        return None
    common = set.intersection(*({unit(row) for row in of(rows, name)} for name in names))
    means = {
        name: macro([row for row in of(rows, name) if unit(row) in common], value) for name in names
    }
    return max(names, key=lambda name: -inf if (mean := means[name]) is None else mean)


def _never_holds(rows: Rows) -> bool:
    """Return whether no agent holds the refuted claim at the injection, in any of these rows."""
    held = [row.course["holders"] for row in rows if row.shock and "holders" in row.course]
    return bool(held) and not any(map(any, held))


def best_gain(
    rows: Rows, recipe: Recipe, value: Value | None = None
) -> tuple[str, Interval | None]:
    """Return the best law on these rows and its paired difference from the best floor."""
    value = value or metric("score")
    floor = best_floor(rows, recipe, value)
    if floor is None:
        return "", None
    fewer, by_method = short(rows), grouped(rows, lambda row: row.method)
    means: dict[str, float] = {}
    for name in methods_of(rows, recipe):
        if name in fewer or recipe.methods[name].law in FLOORS:
            continue
        found = macro(matched(by_method[name], by_method[floor])[0], value)
        if found is not None:
            means[name] = found
    if not means:
        return "", None
    best = max(means, key=means.__getitem__)
    return best, _gain(rows, best, floor, value)


def verdict(rows: Rows, recipe: Recipe, value: Value | None = None) -> str:
    """Return whether the best law is resolved above the floors; a dash if there is one seed."""
    return _answer(best_gain(rows, recipe, value)[1])


def _answer(found: Interval | None) -> str:
    if found is None or found.single:
        return number(None)
    if found.above_zero:
        return "yes"
    return f"no: {BELOW if found.below_zero else NO_DIFFERENCE}"


def judged(table: Table, recipe: Recipe, scopes: Sequence[Sequence[Rows]], value: Value) -> Table:
    """Add the verdict as the last row of a table by method.

    Args:
        table: a table whose last column is not judged.
        recipe: the recipe; without a method for `relay` the table is returned unchanged.
        scopes: the rows of each part of every column between the first and the last.
        value: the value that is compared.
    """
    rows = [row for parts in scopes for part in parts for row in part]
    if plain(RELAY, rows, recipe) is None:
        return table
    cells = [
        SPLIT.join(verdict(part, recipe, value).partition(":")[0] for part in parts)
        for parts in scopes
    ]
    line = (QUESTION, *cells, "")
    return table._replace(
        rows=(*table.rows, line),
        groups=(*table.groups, Group(len(table.rows), "Best law against the floors")),
        unranked=table.unranked | {len(table.rows)},
        tail=table.tail + 1,
        notes=(f"no: {_NOTES[1]}", *table.notes),
    )
