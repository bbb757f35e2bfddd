"""Rows of one method that several laws of its name played: every table says so, with counts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.report import sheets
from tests.report.test_factorial_tables import recipe as arms_of
from tests.report.test_matching import SILO, everything
from tests.report.test_reorganization import late
from waggle.evaluate.plan import Recipe, cells
from waggle.evaluate.rows import Row
from waggle.report import catalog, factorial, page, tables
from waggle.report.matching import weighed

MIXED, SILENT = "MIXED LAWS", "not all rows say"


def by(rows: list[Row], method: str, *digests: str) -> list[Row]:
    """Say of a method's rows which weights played them, in turn; nothing where empty."""
    own = [row for row in rows if row.method == method]
    told = {
        row.cell: msgspec.structs.replace(
            row, weights=digests[place % len(digests)] or msgspec.UNSET
        )
        for place, row in enumerate(own)
    }
    return [told.get(row.cell, row) if row.method == method else row for row in rows]


def silo() -> tuple[Recipe, list[Row]]:
    recipe = sheets.recipe(SILO, tables=["primary", "silo-levels"])
    return recipe, sheets.played(recipe, sheets.by_method(teacher=1, quiet=0, learned=1))


@pytest.mark.parametrize(
    "name", [n for n in catalog.TABLES if n not in ("agentsnet-protocols", "trajectory")]
)
def test_every_table_of_a_mixed_method_says_so(name: str) -> None:
    """But for one that shows no method, and one that shows a single episode."""
    recipe, rows = everything()
    assert not any(MIXED in note for note in catalog.table(name)(rows, recipe).notes)
    made = rows
    for method in recipe.methods:
        made = by(made, method, "aaaa", "bbbb")
    table = catalog.table(name)(made, recipe)
    (note,) = [note for note in table.notes if MIXED in note]
    assert "by aaaa" in note and "by bbbb" in note and "--again" in note
    assert note.split(": ", 1)[1] in tables.html(table)


def test_the_note_names_method_and_counts() -> None:
    recipe, rows = silo()
    (note,) = weighed(by(rows, "learned", "aaaa", "bbbb", "aaaa"), recipe)
    assert note.startswith(MIXED) and note.endswith(": Ours: episodes 8 by aaaa, 4 by bbbb")
    (note,) = weighed(by(rows, "learned", "aaaa", "bbbb", "aaaa", ""), recipe)
    assert note.endswith("Ours: episodes 6 by aaaa, 3 by bbbb, 3 by unknown weights")


def test_rows_that_do_not_say_are_noted_beside_those_that_do() -> None:
    recipe, rows = silo()
    assert weighed(rows, recipe) == weighed(by(rows, "learned", "aaaa"), recipe) == ()
    (note,) = weighed(by(rows, "learned", "aaaa", "", ""), recipe)
    assert note.startswith(SILENT)
    assert note.endswith("Ours: episodes 4 by aaaa, 8 by unknown weights")
    loud, quiet = weighed(by(by(rows, "learned", "a", ""), "teacher", "b", "c"), recipe)
    assert loud.endswith(": Expert: episodes 6 by b, 6 by c") and quiet.startswith(SILENT)


def test_two_methods_may_have_two_laws() -> None:
    recipe, rows = silo()
    assert weighed(by(by(rows, "learned", "aaaa"), "teacher", "bbbb"), recipe) == ()


def test_the_page_says_it_at_its_top_and_under_each_table(tmp_path: Path) -> None:
    recipe, rows = silo()
    written = page.write(recipe, tmp_path, by(rows, "learned", "aaaa", "bbbb"))
    for path in (written.html, written.markdown):
        assert path.read_text().count(MIXED) == 3
    assert written.latex.read_text().count(MIXED) == 2


def test_laws_of_an_arm_differ_but_each_of_them_is_one(tmp_path: Path) -> None:
    made = arms_of(("decision", "scd"), 2)
    rows = [
        late(c, hit=True, latency=2.0, stale=3.0) if c.case.shock else sheets.row(c, 0.5)
        for c in cells(made)
    ]
    for place, method in enumerate(made.methods):
        rows = by(rows, method, f"aa{place}")
    notes = [note for table in factorial.tables(tmp_path, rows, made) for note in table.notes]
    assert not any(MIXED in note or SILENT in note for note in notes)
    found = factorial.tables(tmp_path, by(rows, "scd-1", "aaaa", "bbbb"), made)
    for table in found:
        (note,) = [note for note in table.notes if MIXED in note]
        assert ": scd-1: episodes " in note
    assert len(found) == 4
