"""Tables and figure of private workers, from rows made up so that every number is known."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.report import sheets
from waggle.evaluate.plan import Recipe, cells
from waggle.evaluate.rows import Row
from waggle.evaluate.variants import with_worker
from waggle.report import catalog

TASKS = {"tasks": ["silo/II-16", "swarmbench/pursuit"], "n": [32]}


def method(schedule: str, **more: Any) -> dict[str, Any]:
    return {"law": "expert", "worker": {"name": "native", "schedule": schedule}, **more}


METHODS = {
    "full": method("full", label="Ours"),
    "lean": method("reuse"),
    "other": method("full", law="heuristic"),
    "plain": {"law": "expert"},
}


def made() -> tuple[Recipe, list[Row]]:
    recipe = sheets.recipe(TASKS | {"methods": list(METHODS)}, methods=METHODS)
    rows = []
    for cell in cells(recipe):
        lean = cell.method == "lean"
        row = sheets.row(cell, 0.75 if lean else 0.5)
        tokens = {
            "worker.tokens.input": 6_000 if lean else 10_000,
            "worker.calls": 7 + 3 * (not lean),
        }
        if cell.method != "plain":
            row = msgspec.structs.replace(row, counters={**row.counters, **tokens})
        rows.append(row)
    return recipe, rows


def test_transfer_has_the_methods_under_full_refresh() -> None:
    recipe, rows = made()
    table = catalog.table("worker-transfer")(rows, recipe)
    assert table.columns == ("method", "silo/II-16", "swarmbench/pursuit")
    assert [row[0] for row in table.rows] == ["Ours", "other"]
    assert table.rows[0][1:] == ("0.500 / 10.0 / 8.00",) * 2
    assert any("native (the substrate's own rule, no model)" in note for note in table.notes)


def test_reuse_is_paired_with_the_same_law_and_worker() -> None:
    recipe, rows = made()
    table = catalog.table("worker-reuse")(rows, recipe)
    assert [row[:3] for row in table.rows] == [
        ("Ours", "native", "silo/II-16"),
        ("Ours", "native", "swarmbench/pursuit"),
    ]
    assert table.rows[0][3:] == (
        "0.500 / 10.0 / 8.00", "0.750 / 6.0 / 8.00", "30.0", "40.0", "+0.250 [+0.250, +0.250]",
    )  # fmt: skip


def test_reuse_is_not_paired_with_another_runtime() -> None:
    recipe, rows = made()
    lossy = method("full", perturbation={"loss": 0.5}, label="Lossy")
    more = sheets.recipe(
        TASKS | {"methods": [*METHODS, "lossy"]}, methods={**METHODS, "lossy": lossy}
    )
    worse = [sheets.row(cell, 0.25) for cell in cells(more) if cell.method == "lossy"]
    one, two = (catalog.table("worker-reuse")(*given) for given in (
        (rows, recipe), ([*rows, *worse], more),
    ))  # fmt: skip
    assert one.rows == two.rows


def test_ratios_are_of_the_law_to_others_and_of_reuse_to_full_refresh() -> None:
    recipe, rows = made()
    rows = [
        msgspec.structs.replace(row, scores={"score": 0.25}, metrics={**row.metrics, "score": 0.25})
        if row.method == "other" else row
        for row in rows
    ]  # fmt: skip
    table = catalog.table("focused")(rows, recipe)
    assert {row[0] for row in table.rows} == {"Ours / other", "Ours: reuse / full"}
    found = {row[:2]: row[2:] for row in table.rows}
    assert found["Ours / other", "silo/II-16"][0] == "2.000 [2.000, 2.000]"
    assert found["Ours: reuse / full", "silo/II-16"][0] == "1.500 [1.500, 1.500]"
    assert found["Ours: reuse / full", "silo/II-16"][2] == "0.600 [0.600, 0.600]"
    assert catalog.figure("focused")(rows, recipe).svg.startswith(b"<?xml")


def test_the_figure_is_drawn() -> None:
    recipe, rows = made()
    figure = catalog.figure("worker-tradeoff")(rows, recipe)
    assert figure.svg.startswith(b"<?xml") and "no model" in figure.caption


def test_another_worker_takes_the_place_and_doubles_are_played_once() -> None:
    recipe, _ = made()
    slips = {**METHODS["full"], "worker": {"name": "slips", "schedule": "full"}}
    both = recipe.model_copy(
        update={
            "methods": {**recipe.methods, "slips": recipe.methods["full"].model_validate(slips)}
        }
    )
    hired = with_worker(both, {"name": "chat", "model": "gpt-4o"})
    assert list(hired.methods) == ["full", "lean", "other", "plain"]
    assert hired.methods["lean"].worker == {"schedule": "reuse", "name": "chat", "model": "gpt-4o"}
    assert (
        hired.methods["full"].group == "Worker: chat gpt-4o" and not hired.methods["plain"].worker
    )
    assert {cell.method for cell in cells(hired)} == set(METHODS)
