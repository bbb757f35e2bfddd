"""Two layouts that most tables share: one row per method, and the reference minus every other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.evaluate.stats import Interval
from waggle.report.provenance import provenance
from waggle.report.rows import Rows, label, methods_of, of, reference, short, shown
from waggle.report.tables import Group, Span, Table, bracketed


def by_method(
    title: str,
    rows: Rows,
    recipe: Recipe,
    columns: Sequence[str],
    cells: Callable[[str, Rows], Sequence[str]],
    *,
    better: Sequence[str],
    spans: Sequence[Span] = (),
    notes: Sequence[str] = (),
    first: str = "method",
) -> Table:
    """Return a table with one row per method, under the group headings of the recipe.

    Columns, spans and `better` exclude the first column, which holds the method; `cells` returns
    the other cells for the name of a method and its rows. Notes precede those on provenance.
    """
    called, fewer = shown(rows, recipe), short(rows)
    aside = (i for i, m in enumerate(called) if m in fewer or not recipe.methods[m].ranked)
    return Table(
        title,
        (first, *columns),
        tuple((text, *cells(name, of(rows, name))) for name, text in called.items()),
        (*notes, *provenance(rows, recipe)),
        (Span("", 1), *spans) if spans else (),
        groups_of(list(called), recipe),
        ("", *better),
        frozenset(aside),
    )


def groups_of(names: Sequence[str], recipe: Recipe) -> tuple[Group, ...]:
    """Return the group headings above the rows of these methods, in the given order."""
    found: list[Group] = []
    last = ""
    for index, name in enumerate(names):
        group = recipe.methods[name].group
        if group != last:
            found.append(Group(index, group or "Others"))
        last = group
    return tuple(found)


def against_reference(rows: Rows, recipe: Recipe) -> Iterator[tuple[str, list[Row], list[Row]]]:
    """Yield for every method but the reference its label, the reference's rows and its own."""
    mine = reference(rows, recipe)
    for name in methods_of(rows, recipe):
        if name != mine:
            yield label(recipe, name), of(rows, mine), of(rows, name)


def signed(found: Interval | None, digits: int = 2) -> str:
    """Format a difference with its sign and interval."""
    return bracketed(found, f"+.{digits}f")


def points(found: Interval | None) -> str:
    """Format a difference of shares in percentage points."""
    return bracketed(found, "+.1f", scale=100.0)
