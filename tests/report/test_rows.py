"""Unequal runs: who has fewer episodes is marked, and nothing is compared on different cases."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.report import sheets
from tests.report.sheets import GRAPHS, PORTS, SHOCK, SILO, SWARM, everything
from waggle.core.errors import ConfigError
from waggle.evaluate import sessions
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report import catalog, page, tables
from waggle.report import rows as reading
from waggle.report.provenance import provenance
from waggle.report.tables import Table


def noisy(recipe: Recipe, **gains: float) -> list[Row]:
    """Play a plan: every case has its own difficulty, every method its own gain."""

    def rule(cell: Any) -> float:
        key = f"{cell.case.task} {cell.case.n} {cell.case.seed} {cell.method}"
        return gains.get(cell.method, 0.0) + random.Random(key).random() / 2

    return sheets.played(recipe, rule)


def without(rows: list[Row], method: str, seed: int) -> list[Row]:
    return [row for row in rows if not (row.method == method and row.seed >= seed)]


def of(table: Table, column: int = 0) -> list[str]:
    return [row[column] for row in table.rows]


@pytest.mark.parametrize(
    "name", ["paired-scaling", "contrasts", "silo-paired", "same-runtime", "agentsnet-paired"]
)
def test_tables_do_not_depend_on_who_was_played_first(name: str) -> None:
    recipe = sheets.recipe({**SILO, "seeds": {"start": 20_000, "count": 5}}, SWARM, GRAPHS)
    rows = noisy(recipe, learned=0.3)
    mixed = random.Random(1).sample(rows, len(rows))
    assert catalog.table(name)(rows, recipe) == catalog.table(name)(mixed, recipe)


def test_fewer_seeds_take_a_dagger_and_no_mark() -> None:
    recipe = sheets.recipe({**SILO, "n": [64], "rounds": [3, 9]})
    rows = sheets.played(recipe, sheets.by_method(teacher=0.2, quiet=0.25, learned=0.5))
    whole = catalog.table("horizon")(rows, recipe)
    assert of(whole) == ["Expert", "quiet", "Ours"] and tables.marks(whole)[2, 1, 0] == 1
    table = catalog.table("horizon")(without(rows, "learned", 20_001), recipe)
    assert of(table) == ["Expert", "quiet", "Ours †"]
    assert not any(line == 2 for line, _, _ in tables.marks(table))
    assert "Ours 6 of 12 episodes (1 seed)" in " ".join(table.notes)
    assert not any("†" in note for note in whole.notes)
    assert r"Ours $\dagger$" in tables.latex(table)


def test_labels_and_daggers_are_in_every_table_of_any_recipe() -> None:
    recipe = sheets.recipe(SILO)
    every = sheets.played(recipe, sheets.by_method(teacher=1, quiet=0, learned=0.5))
    rows = without(every, "learned", 20_001)
    shown = {name: catalog.table(name)(rows, recipe) for name in ("scores", "contrasts")}
    assert [row[0] for row in shown["scores"].rows] == ["Expert", "quiet", "Ours †"]
    assert shown["contrasts"].title == "Paired differences in score: Expert minus the other"
    assert {row[0] for row in shown["contrasts"].rows} == {"quiet", "Ours"}
    assert {row[0] for row in catalog.table("mechanism")(rows, recipe).rows} == {
        "Expert", "quiet", "Ours"
    }  # fmt: skip


def test_fewer_tasks_by_plan_are_not_fewer_episodes() -> None:
    recipe = sheets.recipe(SILO, {**SWARM, "methods": ["teacher", "learned"]})
    rows = sheets.played(recipe, sheets.by_method(teacher=1.0, quiet=0.25, learned=0.5))
    assert reading.short(rows) == {}
    assert of(catalog.table("primary")(rows, recipe)) == ["Expert", "quiet", "Ours"]
    gone = [row for row in rows if not (row.method == "learned" and row.n == 32)]
    assert reading.short(gone) == {"learned": (10, 20, 2)}


@pytest.mark.parametrize("name", ["primary", "agentsnet"])
def test_a_method_on_fewer_cases_has_no_rank_and_changes_none(name: str) -> None:
    """One that played the easy seed alone is not ranked on it, nor are the others."""
    recipe = sheets.recipe(GRAPHS) if name == "agentsnet" else sheets.recipe(SILO, SWARM)
    easy = {"teacher": 0.0, "quiet": 1.0, "learned": 0.9}
    hard = {"teacher": 0.0, "quiet": 0.1, "learned": 0.9}
    rows = sheets.played(recipe, lambda c: (easy if c.case.seed == 20_000 else hard)[c.method])
    fixed = [msgspec.structs.replace(row, method="fixed") for row in rows if row.method == "quiet"]
    recipe = recipe.model_copy(
        update={"methods": recipe.methods | {"fixed": recipe.methods["quiet"]}}
    )

    def ranks(some: list[Row]) -> dict[str, str]:
        found = {row[0]: row[-1] for row in catalog.table(name)(some, recipe).rows}
        return {label: rank for label, rank in found.items() if rank != "—"}

    ours = "Ours"
    whole = ranks([*rows, *fixed])
    assert float(whole[ours]) < float(whole["quiet"]) == float(whole["fixed"])
    fewer = ranks([*without(rows, "learned", 20_001), *fixed])
    assert fewer["quiet"] == fewer["fixed"] == "1.50"
    assert not any(label.startswith(ours) for label in fewer)


def test_silence_takes_no_mark_for_few_messages() -> None:
    rows = (("a", "0.00"), ("b", "3.00"), ("c", "2.00"), ("d", "4.00"))
    table = Table("t", ("m", "messages"), rows, better=("", "fewest"))
    assert tables.marks(table) == {(2, 1, 0): 1, (1, 1, 0): 2}


def test_a_case_with_counterevidence_is_another_unit() -> None:
    recipe = sheets.recipe(SILO, {**SHOCK, "seeds": {"start": 20_000, "count": 2}})
    rows = noisy(recipe)
    assert len({reading.unit(row) for row in rows}) == len(rows) / 3
    plain, late = ([r for r in rows if r.shock == shock] for shock in (False, True))
    assert reading.matched(plain, late) == ([], [])


def test_draws_of_a_graph_are_no_units_of_their_own() -> None:
    """Playing every draw twice tells nothing new about graphs, so the interval stays."""
    recipe = sheets.recipe(GRAPHS, reference=["learned"])

    def rule(cell: Any) -> float:
        key = f"{cell.case.task} {cell.case.n} {sorted(cell.case.options.items())}"
        return float(cell.method == "learned" and random.Random(key).random() < 0.5)

    rows = sheets.played(recipe, rule)
    twice = [msgspec.structs.replace(r, seed=r.seed + 100) for r in rows]
    name = "agentsnet-paired"
    one, two = (catalog.table(name)(some, recipe).rows for some in (rows, [*rows, *twice]))
    assert one == two and "[+0.000" not in one[0][3]


def test_paired_differences_by_setting() -> None:
    recipe = sheets.recipe({**SILO, "rounds": [3, 9]}, PORTS, reference=["learned"])
    rows = sheets.played(recipe, lambda c: 0.5 + 0.25 * (c.method == "learned"))
    table = catalog.table("silo-paired")(rows, recipe)
    assert table.columns[:2] == ("against", "N=16 R=3")
    assert "N=32 R=9, cap 512, regime ports" in table.columns and len(table.columns) == 10
    assert table.rows[1] == ("quiet", *["+25.0 [+25.0, +25.0]"] * 8, "48")


SAID = ("waggle eval recipes/x.toml", "seeds 2", "teacher ", "backbone ")


@pytest.mark.parametrize("name", [n for n in catalog.TABLES if n != "agentsnet-protocols"])
def test_every_table_says_command_seeds_teacher_and_backbone(name: str) -> None:
    recipe, rows = everything()
    table = catalog.table(name)(rows, recipe)
    assert table.rows or name in {"reorganization-misses", "own-metrics"}
    notes = " ".join(table.notes)
    assert all(said in notes for said in SAID), notes
    assert tables.latex(table).isascii()


@pytest.mark.parametrize("name", list(catalog.FIGURES))
def test_every_figure_says_command_seeds_teacher_and_backbone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.report.figure._bytes", lambda *_: b"")  # drawn in other tests
    recipe, rows = everything()
    caption = catalog.figure(name)(rows, recipe).caption
    assert all(said in caption for said in SAID), caption


def test_an_unequal_run_says_so_on_its_page(tmp_path: Path) -> None:
    recipe = sheets.recipe(SILO, tables=["primary"])
    rows = without(sheets.played(recipe, sheets.by_method(teacher=1, quiet=0, learned=1)),
                   "learned", 20_001)  # fmt: skip
    written = page.write(recipe, tmp_path, rows)
    assert "Ours: 6 of 12 planned episodes, 1 seed" in written.markdown.read_text()
    assert "Ours †" in written.html.read_text()
    assert provenance([], recipe) == ("no finished episodes yet",)


def test_a_report_from_records_says_which_rows_have_none(tmp_path: Path) -> None:
    recipe = sheets.recipe(SILO, tables=["primary"])
    rows = sheets.played(recipe, sheets.by_method(teacher=1, quiet=0, learned=1))
    (tmp_path / "rows.jsonl").write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in rows))
    with (tmp_path / "rows.jsonl").open("ab") as file:  # of another plan, which has its records
        file.write(msgspec.json.encode(msgspec.structs.replace(rows[0], cell="elsewhere")) + b"\n")
    kept = [row for row in rows if row.method != "learned"]
    text = page.write(recipe, tmp_path, kept).markdown.read_text()
    assert "no record is kept of 12 rows, left out here: Ours" in text
    assert "no record" not in page.write(recipe, tmp_path).markdown.read_text()


def test_commands_do_not_tell_where_they_were_typed() -> None:
    assert sessions.plain("__main__.py eval recipes/a.toml --out /home/me/runs/a --seeds 3") == (
        "waggle eval recipes/a.toml --out a --seeds 3"
    )
    assert sessions.plain("waggle eval a.toml") == "waggle eval a.toml"


def test_rows_of_another_recipe_version_are_one_line(tmp_path: Path) -> None:
    recipe = sheets.recipe(SILO, tables=["primary"])
    rows = [
        msgspec.structs.replace(row, cell="f" * 16)
        for row in sheets.played(recipe, sheets.by_method(teacher=1, quiet=0, learned=1))
    ]
    with pytest.raises(ConfigError, match="of 36 rows 36 are of another plan") as caught:
        page.write(recipe, tmp_path, rows)
    assert "\n" not in str(caught.value)
