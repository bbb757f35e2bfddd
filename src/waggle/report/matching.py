"""What may be compared: matched units, and methods that have fewer of them than others.

A unit is one case that methods share (task, options, N, horizon, counterevidence, seed). A method
that has played fewer units than others of the tasks it plays is shown with a dagger: its mean is of
other cases, so it takes no mark and no rank. Ratios rest on units that both sides have. Rows of one
method that several laws of its name played are no one method's: tables say so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row

DAGGER = "†"
Unit: TypeAlias = tuple[str, str, str, bool, int, int, int]


def options_of(options: Mapping[str, Any]) -> str:
    """Write options down in one way."""
    return ", ".join(f"{key} {value}" for key, value in sorted(options.items()))


def unit(row: Row) -> Unit:
    """Return what makes rows of two methods a matched pair."""
    options = options_of(row.options)
    return (row.substrate, row.task, options, row.shock, row.n, row.rounds, row.seed)


def complete(rows: Iterable[Row], methods: Sequence[str]) -> list[str]:
    """Return those of some methods that lack no unit which others of them have."""
    fewer = short(row for row in rows if row.method in methods)
    return [method for method in methods if method not in fewer]


def matched(mine: Sequence[Row], other: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows of two methods whose units both have."""
    both = {unit(row) for row in mine} & {unit(row) for row in other}
    first, second = ([row for row in side if unit(row) in both] for side in (mine, other))
    return first, second


class Part(NamedTuple):
    """How much a method has of what was played of its tasks."""

    units: int
    of: int
    seeds: int


def short(rows: Iterable[Row]) -> dict[str, Part]:
    """Return the methods that lack units which others have of the tasks that they play."""
    tasks: dict[tuple[Any, ...], dict[str, set[Unit]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        tasks[unit(row)[:4]][row.method].add(unit(row))
    have: dict[str, set[Unit]] = defaultdict(set)
    wanted: dict[str, set[Unit]] = defaultdict(set)
    for own in tasks.values():
        played = set().union(*own.values())
        for method, units in own.items():
            have[method] |= units
            wanted[method] |= played
    return {
        method: Part(len(units), len(wanted[method]), len({each[-1] for each in units}))
        for method, units in have.items()
        if units != wanted[method]
    }


def label(recipe: Recipe, name: str) -> str:
    """Return what tables call a method."""
    return recipe.methods[name].label or name


def shown(rows: Iterable[Row], recipe: Recipe) -> dict[str, str]:
    """Return what a table of these rows calls its methods: a dagger marks those on fewer units."""
    rows = list(rows)
    fewer = short(rows)
    present = {row.method for row in rows}
    called = {name: label(recipe, name) for name in recipe.methods if name in present}
    return {
        name: f"{text} {DAGGER}" if name in fewer and not text.endswith(DAGGER) else text
        for name, text in called.items()
    }


def described(rows: Iterable[Row], recipe: Recipe) -> tuple[str, ...]:
    """Say which methods have fewer units than others; nothing where all have the same."""
    found = short(rows)
    parts = [
        f"{label(recipe, name)} {part.units:,} of {part.of:,} episodes ({part.seeds} seeds)"
        for name, part in sorted(
            found.items(), key=lambda item: list(recipe.methods).index(item[0])
        )
    ]
    text = "has fewer episodes than others of the tasks it plays and takes no mark or rank"
    return (f"{DAGGER} {text}: {'; '.join(parts)}",) if parts else ()


def weighed(rows: Iterable[Row], recipe: Recipe) -> tuple[str, ...]:
    """Say which methods have rows of several weights, or some that do not say; else nothing."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.method][row.digest] += 1
    several: dict[bool, list[str]] = {True: [], False: []}
    for name in recipe.methods:
        own = counts.get(name, Counter())
        told = [f"{count:,} by {digest}" for digest, count in own.most_common() if digest]
        silent = [f"{own['']:,} by unknown weights"] if own[""] else []
        if told and len(told) + len(silent) > 1:
            said = f"{label(recipe, name)}: episodes {', '.join([*told, *silent])}"
            several[len(told) > 1].append(said)
    text = {
        True: "MIXED LAWS, weights changed between episodes and no number here is of one law; play "
        "the method again with --again",
        False: "not all rows say which weights played them",
    }
    return tuple(f"{text[loud]}: {'; '.join(said)}" for loud, said in several.items() if said)
