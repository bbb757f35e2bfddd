"""Matched settings of late counterevidence: rates and paired effects over them.

Methods are contrasted on matched settings (task, N, horizon, seed) only; strata are the (task, N)
cells of the matrix, which weigh equally. A method's reference is its own law in the unchanged
runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from waggle.evaluate.plan import MethodSpec, Recipe
from waggle.evaluate.reorganization import after
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval
from waggle.report import reading
from waggle.report.matching import matched
from waggle.report.reading import Value, task_of
from waggle.report.tables import bracketed, number

POOLED = "pooled"
RECOVERIES = ("recovery", "event_recovery", "outcome_recovery")
"""The metrics of late counterevidence that are zero or one (see `evaluate.reorganization`)."""


def cell_of(row: Row) -> str:
    """Name the cell of the matrix a row lies in."""
    return f"{task_of(row)} N={row.n}"


def since(name: str) -> Value:
    """Return the reader of a series' sum from the injection on."""
    return lambda row: after(row.course, name)


def recovered(value: Value) -> Value:
    """Restrict a reader to recovered settings, as the paper's process metrics are."""
    return lambda row: value(row) if row.metrics.get("recovery") == 1.0 else None


def of(rows: Sequence[Row], method: str, *, shock: bool = True) -> list[Row]:
    """Return the rows of a method with late counterevidence, or those without."""
    return [row for row in rows if row.method == method and row.shock == shock]


def _law(spec: MethodSpec) -> tuple[str, str]:
    return spec.law, repr(sorted(spec.options.items()))


def _plain(spec: MethodSpec) -> bool:
    return not spec.switches and not spec.perturbation and spec.engine == "sync"


def is_reference(recipe: Recipe, name: str) -> bool:
    """Whether a method runs in the unchanged runtime."""
    return _plain(recipe.methods[name])


def reference(recipe: Recipe, name: str, among: Sequence[str]) -> str | None:
    """Return the method of the same law in the unchanged runtime, where it has rows."""
    own = _law(recipe.methods[name])
    same = (m for m in among if _law(recipe.methods[m]) == own and is_reference(recipe, m))
    return next(same, None)


def macro(rows: Sequence[Row], value: Value) -> float | None:
    """Return the mean over cells of a value's mean, so that every cell weighs the same."""
    return reading.macro(rows, value, cell_of)


def rate(rows: Sequence[Row], value: Value) -> Interval | None:
    """Return the mean of a value with its interval over settings within cells."""
    return reading.spread(rows, value, cell_of)


def effect(mine: Sequence[Row], other: Sequence[Row], value: Value) -> Interval | None:
    """Return the paired difference mine - other of a value over matched settings within cells."""
    return reading.difference(mine, other, value, cell_of)


def flag(name: str) -> Value:
    """Return the reader of a zero-or-one metric; a setting without an injection did not recover."""
    return lambda row: float(row.metrics.get(name) == 1.0)


def hits(rows: Sequence[Row], name: str) -> str:
    """Format in how many settings a zero-or-one metric holds."""
    if not rows:
        return number(None)
    count = sum(flag(name)(row) == 1.0 for row in rows)
    return f"{count}/{len(rows)} ({100 * count / len(rows):.1f} %)"


def recoveries(rows: Sequence[Row]) -> list[str]:
    """Format in how many settings each kind of recovery holds."""
    return [hits(rows, kind) for kind in RECOVERIES]


def ratio(mine: float | None, other: float | None, digits: int = 2) -> str:
    """Format a value relative to its reference."""
    if mine is None or not other:
        return number(None)
    return f"{mine / other:.{digits}f}×"


def against(
    mine: Sequence[Row], other: Sequence[Row], read: Callable[[Sequence[Row]], float | None]
) -> str:
    """Format what is read of some rows relative to its reference, on settings that both have."""
    one, two = matched(mine, other)
    return ratio(read(one), read(two))


def points(found: Interval | None) -> str:
    """Format a difference of shares in percentage points."""
    return bracketed(found, "+.1f", scale=100.0)


def signed(found: Interval | None, digits: int = 2) -> str:
    """Format a difference with its sign and interval."""
    return bracketed(found, f"+.{digits}f")
