"""Where numbers come from: tables say which weights, seeds and laws their rows are of."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.report import sheets
from tests.report.sheets import SILO, arms_of, everything, late_row, weighed
from waggle import shipped
from waggle.evaluate.plan import Recipe, cells
from waggle.evaluate.rows import FILE, Row
from waggle.laws.digest import of_manifest
from waggle.plugins import get_law
from waggle.report import catalog, factorial, page, tables
from waggle.report.provenance import (
    mixed_weights,
    mixed_worlds,
    not_of_shipped_laws,
    of_other_weights,
    seeds_of,
    weights_of_shipped_laws,
)

MIXED, SILENT = "MIXED LAWS", "not all rows say"


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
        made = weighed(made, method, "aaaa", "bbbb")
    table = catalog.table(name)(made, recipe)
    (note,) = [note for note in table.notes if MIXED in note]
    assert "by aaaa" in note and "by bbbb" in note and "--again" in note
    assert note.split(": ", 1)[1] in tables.html(table)


def test_the_note_names_method_and_counts() -> None:
    recipe, rows = silo()
    (note,) = mixed_weights(weighed(rows, "learned", "aaaa", "bbbb", "aaaa"), recipe)
    assert note.startswith(MIXED) and note.endswith(": Ours: episodes 8 by aaaa, 4 by bbbb")
    (note,) = mixed_weights(weighed(rows, "learned", "aaaa", "bbbb", "aaaa", ""), recipe)
    assert note.endswith("Ours: episodes 6 by aaaa, 3 by bbbb, 3 by unknown weights")


def test_rows_of_two_versions_of_a_world_are_noted(tmp_path: Path) -> None:
    recipe, rows = silo()
    one, two = (
        [msgspec.structs.replace(row, code={"substrate": digest}) for row in rows]
        for digest in "ab"
    )
    assert mixed_worlds([*rows, *one]) == []
    (note,) = mixed_worlds([*one[:8], *two[8:]])
    assert note.startswith("MIXED WORLDS, the file of 'silo'")
    assert note.endswith("episodes 28 by b, 8 by a")
    assert note in page.make(recipe, tmp_path, [*one[:8], *two[8:]])[0].facts


def test_rows_that_do_not_say_are_noted_beside_those_that_do() -> None:
    recipe, rows = silo()
    assert (
        mixed_weights(rows, recipe) == mixed_weights(weighed(rows, "learned", "aaaa"), recipe) == ()
    )
    (note,) = mixed_weights(weighed(rows, "learned", "aaaa", "", ""), recipe)
    assert note.startswith(SILENT)
    assert note.endswith("Ours: episodes 4 by aaaa, 8 by unknown weights")
    loud, quiet = mixed_weights(
        weighed(weighed(rows, "learned", "a", ""), "teacher", "b", "c"), recipe
    )
    assert loud.endswith(": Expert: episodes 6 by b, 6 by c") and quiet.startswith(SILENT)


def test_two_methods_may_have_two_laws() -> None:
    recipe, rows = silo()
    assert mixed_weights(weighed(weighed(rows, "learned", "aaaa"), "teacher", "bbbb"), recipe) == ()


def test_the_page_says_it_at_its_top_and_under_each_table(tmp_path: Path) -> None:
    recipe, rows = silo()
    written = page.write(recipe, tmp_path, weighed(rows, "learned", "aaaa", "bbbb"))
    for path in (written.html, written.markdown):
        assert path.read_text().count(MIXED) == 3
    assert written.latex.read_text().count(MIXED) == 2


def test_laws_of_an_arm_differ_but_each_of_them_is_one(tmp_path: Path) -> None:
    made = arms_of(("decision", "scd"), 2)
    rows = [
        late_row(c, hit=True, latency=2.0, stale=3.0) if c.case.shock else sheets.row(c, 0.5)
        for c in cells(made)
    ]
    for place, method in enumerate(made.methods):
        rows = weighed(rows, method, f"aa{place}")
    notes = [note for table in factorial.tables(tmp_path, rows, made) for note in table.notes]
    assert not any(MIXED in note or SILENT in note for note in notes)
    found = factorial.tables(tmp_path, weighed(rows, "scd-1", "aaaa", "bbbb"), made)
    for table in found:
        (note,) = [note for note in table.notes if MIXED in note]
        assert ": scd-1: episodes " in note
    assert len(found) == 4


NOW = of_manifest(shipped.manifest(shipped.folder("nano"))) if shipped.present("nano") else ""
needed = pytest.mark.skipif(not NOW, reason="the weights of nano are not here")


@pytest.mark.parametrize("name", ["nano", "nano-outcome", "smollm2"])
def test_a_manifest_has_the_digest_of_its_law(name: str) -> None:
    if not shipped.present(name):
        pytest.skip(f"the weights of {name} are not here")
    found = shipped.manifest(shipped.folder(name))
    assert of_manifest(found) == get_law(name).digest  # type: ignore[attr-defined]
    assert of_manifest(msgspec.structs.replace(found, files={})) == ""


@needed
@pytest.mark.parametrize(
    ("digests", "said"),
    [
        ((NOW,), ""),
        (("aaaa",), "Ours 12 of 12 episodes by other weights (aaaa)"),
        (("aaaa", NOW, NOW), "Ours 4 of 12 episodes by other weights (aaaa)"),
        (("",), "Ours 12 of 12 episodes by weights that their rows do not name"),
        (("aaaa", "", NOW), "Ours 4 of 12 episodes by other weights (aaaa) and 4 of 12 episodes by "
                            "weights that their rows do not name"),
    ],
)  # fmt: skip
def test_one_line_says_what_may_be_of_another_law(
    tmp_path: Path, digests: tuple[str, ...], said: str
) -> None:
    recipe, rows = silo()
    made = weighed(rows, "learned", *digests)
    line = f"not known to be of the laws that ship: {said} (nano has {NOW} here)"
    assert not_of_shipped_laws(made, recipe) == ([line] if said else [])
    (tmp_path / FILE).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in made))
    text = page.write(recipe, tmp_path).markdown.read_text()
    assert (f"- {line}\n" in text) == bool(said)


def test_nothing_is_said_of_rules_or_where_no_weights_are(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, rows = silo()
    made = weighed(weighed(rows, "learned", "aaaa"), "quiet", "bbbb")
    assert weights_of_shipped_laws(made, recipe) == {"learned": {"aaaa": 12}}
    monkeypatch.setattr(shipped, "ROOT", Path("nowhere"))
    assert (
        not_of_shipped_laws(made, recipe) == [] and of_other_weights({"aaaa": 3, "": 4}, "") == ""
    )


def test_seeds_are_named_without_the_gap_between_them() -> None:
    _, (row, *_) = silo()
    seeds = (20_000, 20_001, 22_000, 22_001, 30_000)
    rows = [msgspec.structs.replace(row, seed=seed) for seed in seeds]
    assert seeds_of(rows) == "20000 to 20001, 22000 to 22001, 30000 (5)"
