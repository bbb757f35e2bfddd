"""What all tables share: matched units, means by method, and where the numbers come from.

A seed of a setting counts for a method once all of its planned tasks are finished, so that an
unfinished run cannot pass off its easy tasks as a mean; what is left out is said.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

from waggle.evaluate import anchors
from waggle.evaluate.plan import MethodSpec, Recipe, cells
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval, paired
from waggle.report.matching import described, label, options_of, short, unit, weighed
from waggle.report.tables import Group

Value: TypeAlias = Callable[[Row], "float | None"]
Name: TypeAlias = Callable[[Row], str]


def task_of(row: Row) -> str:
    """Name the task of a row."""
    return f"{row.substrate}/{row.task}"


def metric(name: str) -> Value:
    """Return the reader of a metric."""
    return lambda row: row.metrics.get(name)


def score(name: str) -> Value:
    """Return the reader of one of the substrate's scores."""
    return lambda row: row.scores.get(name)


def per_episode(counter: str) -> Value:
    """Return the reader of a counter."""
    return lambda row: float(row.counters.get(counter, 0))


def mean(rows: Iterable[Row], value: Value) -> float | None:
    """Return the mean of a value over the rows that have it."""
    found = [v for row in rows if (v := value(row)) is not None]
    return fmean(found) if found else None


def macro(rows: Iterable[Row], value: Value, by: Name = task_of) -> float | None:
    """Return the mean over tasks of a value's mean, so that tasks weigh the same."""
    groups = _grouped(((row, value(row)) for row in rows), by)
    return fmean(fmean(values) for values in groups.values()) if groups else None


def spread(rows: Iterable[Row], value: Value, by: Name = task_of) -> Interval | None:
    """Return the macro mean with its bootstrap interval over seeds within tasks."""
    groups = _grouped(((row, value(row)) for row in rows), by)
    return paired(groups) if groups else None


def difference(
    mine: Iterable[Row], theirs: Iterable[Row], value: Value, by: Name = task_of
) -> Interval | None:
    """Return the paired difference of a value over matched units, tasks weighing the same."""
    other = {unit(row): value(row) for row in theirs}

    def gain(row: Row) -> float | None:
        one, two = value(row), other.get(unit(row))
        return None if one is None or two is None else one - two

    groups = _grouped(((row, gain(row)) for row in mine), by)
    return paired(groups) if groups else None


def _grouped(found: Iterable[tuple[Row, float | None]], by: Name) -> dict[str, list[float]]:
    """Gather the values that there are by task, or by what else weighs the same.

    In the order of their units, so that an interval does not depend on who was played first.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for row, value in sorted(found, key=lambda pair: unit(pair[0])):
        if value is not None:
            groups[by(row)].append(value)
    return groups


def normalized(rows: Iterable[Row], tasks: Sequence[str] = anchors.NORMALIZED) -> list[Row]:
    """Return the SwarmBench rows of the normalized aggregate."""
    return [r for r in rows if r.substrate == "swarmbench" and r.task in tasks]


def methods_of(rows: Iterable[Row], recipe: Recipe) -> list[str]:
    """Return the methods that have rows, in the recipe's order."""
    present = {row.method for row in rows}
    return [name for name in recipe.methods if name in present]


def reference(rows: Iterable[Row], recipe: Recipe) -> str:
    """Return the method that others are compared with."""
    present = methods_of(rows, recipe) or list(recipe.methods)
    return next((name for name in recipe.reference if name in present), present[0])


def groups_of(names: Sequence[str], recipe: Recipe) -> tuple[Group, ...]:
    """Return the headings over rows that list these methods in order."""
    found: list[Group] = []
    last = ""
    for index, name in enumerate(names):
        group = recipe.methods[name].group
        if group != last:
            found.append(Group(index, group or "Others"))
        last = group
    return tuple(found)


def unranked(names: Sequence[str], recipe: Recipe, rows: Iterable[Row]) -> frozenset[int]:
    """Return the lines of methods that are shown for reference or have fewer units than others."""
    fewer = short(rows)
    return frozenset(
        i for i, name in enumerate(names) if name in fewer or not recipe.methods[name].ranked
    )


def levels_of(rows: Iterable[Row]) -> list[str]:
    """Return the Silo levels that occur, I before II before III."""
    return sorted({row.task.partition("-")[0] for row in rows if row.substrate == "silo"})


def family(row: Row) -> str:
    """Name the column group of a row: a Silo level together, every other task on its own."""
    if row.substrate == "silo":
        return f"silo level {row.task.partition('-')[0]}"
    return row.task if row.task == row.substrate else f"{row.substrate}/{row.task}"


class Whole(NamedTuple):
    """The rows that count, and what is to be said about the others."""

    rows: list[Row]
    notes: list[str]
    failed: list[Row]
    """Rows of the plan whose cells failed."""
    foreign: int
    """How many rows are of other plans."""


def whole(rows: Sequence[Row], recipe: Recipe) -> Whole:
    """Keep the rows of the plan whose seed is finished on all planned tasks of its setting."""
    planned = {(cell.method, cell.id): cell for cell in cells(recipe)}
    wanted = Counter(
        (c.method, c.case.substrate, options_of(c.case.options), c.case.n, c.case.rounds,
         c.case.shock, c.case.seed)
        for c in planned.values()
    )  # fmt: skip
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    failed: list[Row] = []
    foreign = 0
    for row in rows:
        cell = planned.get((row.method, row.cell))
        if cell is None:
            foreign += 1
            continue
        if row.error:
            failed.append(row)
            continue
        case = cell.case
        key = (row.method, case.substrate, options_of(case.options), case.n, case.rounds,
               case.shock, case.seed)  # fmt: skip
        groups[key].append(row)
    kept = [row for key, group in groups.items() if len(group) == wanted[key] for row in group]
    notes = [*weighed(kept, recipe), *_unfinished(recipe, wanted, groups, foreign)]
    return Whole(kept, notes, failed, foreign)


def _unfinished(
    recipe: Recipe,
    wanted: Mapping[tuple[Any, ...], int],
    groups: Mapping[tuple[Any, ...], Sequence[Row]],
    foreign: int,
) -> list[str]:
    notes = []
    for name in dict.fromkeys(key[0] for key in wanted):
        total = sum(count for key, count in wanted.items() if key[0] == name)
        own = {key: len(group) for key, group in groups.items() if key[0] == name}
        played = sum(own.values())
        used = sum(count for key, count in own.items() if count == wanted[key])
        if own and used < total:
            seeds = sorted({key[-1] for key, count in own.items() if count == wanted[key]})
            left = f", {played - used} of unfinished seeds left out" if played > used else ""
            notes.append(
                f"{label(recipe, name)}: {used:,} of {total:,} planned episodes, "
                f"{len(seeds)} seeds{left}"
            )
    missing = [n for n in dict.fromkeys(k[0] for k in wanted) if not any(k[0] == n for k in groups)]
    if missing:
        notes.append("not played yet: " + "; ".join(label(recipe, n) for n in missing))
    if foreign:
        notes.append(f"{foreign} rows of other plans left out")
    return notes


def provenance(rows: Sequence[Row], recipe: Recipe) -> tuple[str, ...]:
    """Say for the rows of one table: seeds, episodes, regime, and who each method is."""
    if not rows:
        return ("no finished episodes yet",)
    counts = Counter(row.method for row in rows)
    some = sorted(set(counts.values()))
    episodes = f"{some[0]:,}" if len(some) == 1 else f"{some[0]:,} to {some[-1]:,}"
    head = f"seeds {seeds_of(rows)}; {episodes} episode{'s' * (episodes != '1')} per method"
    made = f"waggle eval {recipe.source}" if recipe.source else recipe.title
    regimes = "; ".join([made, head, *_regimes(rows)])
    told = (*weighed(rows, recipe), *described(rows, recipe))
    return (regimes, *told, *labels(recipe, methods_of(rows, recipe)))


def seeds_of(rows: Iterable[Row]) -> str:
    """Name the seeds of rows in ranges without gaps, and how many they are."""
    seeds = sorted({row.seed for row in rows})
    starts = [s for s in seeds if s - 1 not in seeds]
    ends = [s for s in seeds if s + 1 not in seeds]
    pairs = zip(starts, ends, strict=True)
    parts = [f"{first} to {last}" if first < last else str(first) for first, last in pairs]
    return f"{', '.join(parts)} ({len(seeds)})"


def caption(text: str, rows: Sequence[Row], recipe: Recipe) -> str:
    """Return the caption of a figure: what it shows, then where the numbers come from."""
    return ". ".join([text.removesuffix("."), *provenance(rows, recipe)])


def _regimes(rows: Sequence[Row]) -> list[str]:
    found = []
    silo = [row for row in rows if row.substrate == "silo"]
    if silo:
        kinds = [_silo_regime(*pair) for pair in sorted({_ports(row) for row in silo})]
        rounds = sorted({row.rounds - 1 for row in silo})
        found.append(f"Silo regime {' and '.join(kinds)}, R = {', '.join(map(str, rounds))}")
    swarm = [row for row in rows if row.substrate == "swarmbench"]
    if swarm:
        rounds = sorted({row.rounds for row in swarm})
        own = sorted({options_of(row.options) for row in swarm if row.options})
        maps = "; ".join(own) or "map 10 x 10 to N = 10, 24 x 24 above"
        found.append(f"SwarmBench {', '.join(map(str, rounds))} rounds, {maps}")
    nets = [row for row in rows if row.substrate == "agentsnet"]
    if nets:
        kinds = sorted({str(row.options.get("priority", True)) for row in nets})
        said = {"True": "with priority", "False": "without priority"}
        found.append("AgentsNet " + " and ".join(said[kind] for kind in reversed(kinds)))
    return found


def _ports(row: Row) -> tuple[str, int]:
    return str(row.options.get("regime", "directed")), int(row.options.get("cap", 4096))


def _silo_regime(kind: str, cap: int) -> str:
    return f"{kind} {cap} bytes" if kind == "ports" else kind


def labels(recipe: Recipe, methods: Iterable[str]) -> tuple[str, ...]:
    """Say the teacher, backbone, order and engine of the methods, once for those that share it."""
    told: dict[str, list[str]] = defaultdict(list)
    for name in methods:
        spec = recipe.methods[name]
        own = _own(name, spec)
        said = f"{label(recipe, name)} ({own})" if own else label(recipe, name)
        told[f"teacher {spec.teacher}, backbone {spec.backbone}, order {spec.order}, "
             f"engine {spec.engine}"].append(said)  # fmt: skip
    return tuple(f"{'; '.join(names)}: {text}" for text, names in told.items())


def _own(name: str, spec: MethodSpec) -> str:
    """Say what sets a method apart from others of its law."""
    parts = [] if spec.law == name else [f"law {spec.law}"]
    parts += [f"switches {options_of(spec.switches)}"] if spec.switches else []
    parts += [f"perturbation {options_of(spec.perturbation)}"] if spec.perturbation else []
    return ", ".join(parts)
