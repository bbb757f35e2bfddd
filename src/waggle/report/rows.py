"""Values and means of rows, and the matching of rows for comparisons.

A unit is one case that methods share (task, options, N, horizon, counterevidence, seed). Two
methods are compared on the units that both have. A method with fewer units than others on the same
tasks gets a dagger: its mean is over different cases, so it gets no mark and no rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeAlias, TypeVar

from waggle.evaluate import anchors, stats
from waggle.evaluate.plan import Recipe, called
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval, average_ranks, paired
from waggle.report.tables import number

DAGGER = "†"
SHARES = ("silo", "agentsnet")
"""Substrates whose scores are shares. Those of other tasks have units of their own and no mean."""
Rows: TypeAlias = Sequence[Row]
Value: TypeAlias = Callable[[Row], "float | None"]
Name: TypeAlias = Callable[[Row], str]
Group = TypeVar("Group")
Endpoints: TypeAlias = Callable[[Rows], Mapping[Any, "float | None"]]


class Unit(NamedTuple):
    """The case of a row, which methods share; units sort by their fields, in this order."""

    substrate: str
    task: str
    options: str
    """The options as text (see `options_of`)."""
    shock: bool
    n: int
    rounds: int
    seed: int


def task_of(row: Row) -> str:
    """Return the full task name of a row."""
    return f"{row.substrate}/{row.task}"


def cell_of(row: Row) -> str:
    """Return the name of a row's cell: task and population."""
    return f"{task_of(row)} N={row.n}"


def family(row: Row) -> str:
    """Return the task family of a row: the level of a Silo task, else the task itself."""
    if row.substrate == "silo":
        return f"silo level {row.task.partition('-')[0]}"
    return row.task if row.task == row.substrate else task_of(row)


def options_of(options: Mapping[str, Any]) -> str:
    """Return options as text, sorted by key."""
    return ", ".join(f"{key} {value}" for key, value in sorted(options.items()))


def unit(row: Row) -> Unit:
    """Return the key by which rows of two methods are matched; it is cached in the row."""
    key: Unit | None = row.__dict__.get("unit")
    if key is None:
        options = options_of(row.options)
        key = Unit(row.substrate, row.task, options, row.shock, row.n, row.rounds, row.seed)
        row.__dict__["unit"] = key
    return key


def metric(name: str) -> Value:
    """Return a function that reads a metric of a row."""
    return lambda row: row.metrics.get(name)


def score(name: str) -> Value:
    """Return a function that reads one of the substrate's scores of a row."""
    return lambda row: row.scores.get(name)


def counter(name: str) -> Value:
    """Return a function that reads a counter of a row."""
    return lambda row: float(row.counters.get(name, 0))


def kilobytes(rows: Rows) -> float | None:
    """Return the mean volume of delivered frames per episode, in kilobytes."""
    volume = mean(rows, metric("bytes"))
    return None if volume is None else volume / 1000.0


def silo(rows: Iterable[Row], n: int | None = None) -> list[Row]:
    """Return the rows of Silo without late counterevidence, of one population or of all."""
    return [r for r in rows if r.substrate == "silo" and not r.shock and n in (None, r.n)]


def swarmbench(
    rows: Iterable[Row], n: int | None = None, tasks: Sequence[str] | None = anchors.NORMALIZED
) -> list[Row]:
    """Return the rows of SwarmBench without late counterevidence, optionally of one N and tasks."""
    own = [r for r in rows if r.substrate == "swarmbench" and not r.shock and n in (None, r.n)]
    return [row for row in own if tasks is None or row.task in tasks]


def of(rows: Iterable[Row], method: str) -> list[Row]:
    """Return the rows of a method."""
    return [row for row in rows if row.method == method]


def sizes_of(rows: Iterable[Row]) -> list[int]:
    """Return the populations in the rows, sorted."""
    return sorted({row.n for row in rows})


def levels_of(rows: Iterable[Row]) -> list[str]:
    """Return the Silo levels in the rows: I before II before III."""
    return sorted({row.task.partition("-")[0] for row in rows if row.substrate == "silo"})


def grouped(rows: Iterable[Row], key: Callable[[Row], Group]) -> dict[Group, list[Row]]:
    """Group rows by a key; groups are in order of first occurrence."""
    found: dict[Group, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def mean(rows: Iterable[Row], value: Value) -> float | None:
    """Return the mean of a value over the rows that have it."""
    found = [v for row in rows if (v := value(row)) is not None]
    return fmean(found) if found else None


def macro(rows: Iterable[Row], value: Value, by: Name = task_of) -> float | None:
    """Return the mean over tasks of a value's task means, so that tasks have equal weight."""
    groups = _grouped(((row, value(row)) for row in rows), by)
    return fmean(fmean(values) for values in groups.values()) if groups else None


def spread(rows: Iterable[Row], value: Value, by: Name = task_of) -> Interval | None:
    """Return the macro mean with its bootstrap interval over seeds within tasks."""
    groups = _grouped(((row, value(row)) for row in rows), by)
    return paired(groups) if groups else None


def difference(
    mine: Iterable[Row], theirs: Iterable[Row], value: Value, by: Name = task_of
) -> Interval | None:
    """Return the paired difference of a value over matched units, with equal weight per task."""
    other = {unit(row): value(row) for row in theirs}

    def gain(row: Row) -> float | None:
        one, two = value(row), other.get(unit(row))
        return None if one is None or two is None else one - two

    groups = _grouped(((row, gain(row)) for row in mine), by)
    return paired(groups) if groups else None


def ratio(
    mine: Iterable[Row], theirs: Iterable[Row], value: Value, by: Name = task_of
) -> Interval | None:
    """Return the ratio of two means over matched units, with equal weight per task."""
    other = {unit(row): value(row) for row in theirs}
    both = [row for row in mine if value(row) is not None and other.get(unit(row)) is not None]
    over = _grouped(((row, value(row)) for row in both), by)
    under = _grouped(((row, other[unit(row)]) for row in both), by)
    return stats.ratio(over, under) if over else None


def _grouped(found: Iterable[tuple[Row, float | None]], by: Name) -> dict[str, list[float]]:
    """Group values by task, or by another name; draws of one AgentsNet graph are averaged.

    Values are sorted by unit, so that an interval does not depend on the order of play.
    """
    groups: dict[str, dict[Unit, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row, value in sorted(found, key=lambda pair: unit(pair[0])):
        if value is not None:
            groups[by(row)][_independent(unit(row))].append(value)
    return {name: list(map(fmean, values.values())) for name, values in groups.items()}


def _independent(case: Unit) -> Unit:
    """Return what is resampled: the case, but on AgentsNet its graph.

    A seed of AgentsNet draws priorities, not the graph; draws of one graph are not independent.
    """
    if case.substrate != "agentsnet":
        return case
    from waggle.substrates.agentsnet.graphs import edition

    return case._replace(seed=edition(case.seed))


def mean_and_deviation(values: Iterable[float | None], digits: int, scale: float = 1.0) -> str:
    """Format the mean and sample deviation as the paper's tables do; skip absent values.

    The deviation of a single value is shown as zero.
    """
    found = [value for value in values if value is not None]
    if not found:
        return number(None)
    middle, deviation = fmean(found), stdev(found) if len(found) > 1 else 0.0
    return f"{number(scale * middle, digits)} ± {number(scale * deviation, digits)}"


def matched(mine: Rows, other: Rows) -> tuple[list[Row], list[Row]]:
    """Return the rows of two methods on the units that both have."""
    both = {unit(row) for row in mine} & {unit(row) for row in other}
    first, second = ([row for row in side if unit(row) in both] for side in (mine, other))
    return first, second


class Part(NamedTuple):
    """Units and seeds of a method, and all units (`of`) that any method has on its tasks."""

    units: int
    of: int
    seeds: int


def short(rows: Iterable[Row]) -> dict[str, Part]:
    """Return the methods that lack units which other methods have on the same tasks."""
    all_of: dict[str, set[Unit]] = defaultdict(set)
    for row in rows:
        all_of[row.method].add(unit(row))
    if all(units == next(iter(all_of.values())) for units in all_of.values()):
        return {}
    tasks: dict[tuple[Any, ...], dict[str, set[Unit]]] = defaultdict(lambda: defaultdict(set))
    for method, units in all_of.items():
        for each in units:
            tasks[each.substrate, each.task, each.options, each.shock][method].add(each)
    have: dict[str, set[Unit]] = defaultdict(set)
    wanted: dict[str, set[Unit]] = defaultdict(set)
    for own in tasks.values():
        played = set().union(*own.values())
        for method, units in own.items():
            have[method] |= units
            wanted[method] |= played
    return {
        method: Part(len(units), len(wanted[method]), len({each.seed for each in units}))
        for method, units in have.items()
        if units != wanted[method]
    }


def label(recipe: Recipe, name: str) -> str:
    """Return the label of a method in tables."""
    return recipe.methods[name].label or name


def shown(rows: Iterable[Row], recipe: Recipe) -> dict[str, str]:
    """Return the method labels for a table of these rows; a dagger marks those on fewer units.

    Methods of one label have their names.
    """
    rows = list(rows)
    fewer = short(rows)
    return {
        name: f"{text} {DAGGER}" if name in fewer and not text.endswith(DAGGER) else text
        for name, text in called(recipe, methods_of(rows, recipe)).items()
    }


def methods_of(rows: Iterable[Row], recipe: Recipe) -> list[str]:
    """Return the methods that have rows, in the recipe's order."""
    present = {row.method for row in rows}
    return [name for name in recipe.methods if name in present]


def reference(rows: Iterable[Row], recipe: Recipe) -> str:
    """Return the method that all others are compared with."""
    present = methods_of(rows, recipe) or list(recipe.methods)
    return next((name for name in recipe.reference if name in present), present[0])


def ranks(rows: Rows, recipe: Recipe, endpoints: Endpoints) -> dict[str, float]:
    """Return the average rank of each ranked method that has all endpoints and all units."""
    keys = list(endpoints(rows))
    names = [name for name in methods_of(rows, recipe) if recipe.methods[name].ranked]
    found = {name: endpoints(of(rows, name)) for name in names}
    able = [n for n in names if all(found[n].get(key) is not None for key in keys)]
    fewer = short(row for row in rows if row.method in able)
    table = {n: [found[n][key] or 0.0 for key in keys] for n in able if n not in fewer}
    return average_ranks(table) if len(table) > 1 else {}
