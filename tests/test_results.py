"""The archives of the repository: whole, of the recipes they name, and what is frozen from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from waggle import shipped
from waggle.evaluate import anchors, plan
from waggle.evaluate.results import read_result
from waggle.evaluate.rows import read_rows
from waggle.report import ceilings
from waggle.report.docs_pages import archives
from waggle.report.law_results import Results, gather
from waggle.report.provenance import counted
from waggle.report.rows import silo

ROOT = Path(__file__).parent.parent
FOLDERS = archives(ROOT / "results")


def test_every_row_is_planned_by_the_recipe_it_names() -> None:
    assert "primary" in {folder.name for folder in FOLDERS}
    for folder in FOLDERS:
        kept = plan.load(folder / "recipe.json")
        today = plan.load(ROOT / kept.source)
        rows = read_rows(folder)
        assert rows and not any(row.error for row in rows), folder
        assert {row.key for row in rows} <= {cell.key for cell in plan.cells(today)}, folder
        assert kept.about == today.about, folder


def test_the_anchors_are_those_of_the_rows() -> None:
    frozen = anchors.load()
    assert anchors.freeze(read_rows(ROOT / "results" / "anchors"), frozen.command) == frozen


def test_the_card_that_ships_tells_of_the_rows_of_today() -> None:
    """A card of earlier archives names fewer methods, and fewer of those that are better."""
    results = read_result(shipped.folder("nano") / shipped.RESULTS, "results")
    told = {run["title"]: run for run in results["runs"]}
    known = {plan.load_run(folder).title: folder for folder in FOLDERS}
    assert len(told) == 5 and told.keys() <= known.keys()
    of_rows = gather({}, Results(run=tuple(known[title] for title in told)))["runs"]
    assert told == {run["title"]: run for run in json.loads(json.dumps(of_rows))}


@pytest.fixture
def unfrozen(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Forget the frozen ceilings; return those that are computed."""
    computed: dict[str, float] = {}
    monkeypatch.setattr(ceilings, "frozen", lambda: computed)
    return computed


def test_frozen_ceilings_are_those_of_the_cases(unfrozen: dict[str, float]) -> None:
    """The small ones here; with --runslow all of them."""
    folder = ROOT / "results" / "primary"
    recipe = plan.load(folder / "recipe.json")
    rows = silo(counted(read_rows(folder), recipe).rows, 16)
    for schedule in ("flooding", "round-robin"):
        ceilings.schedule_success(schedule, rows)
    frozen = ceilings.read_frozen()
    assert unfrozen and unfrozen == {key: frozen[key] for key in unfrozen}


@pytest.mark.slow
def test_all_frozen_ceilings_are_those_of_the_cases(unfrozen: dict[str, float]) -> None:
    ceilings.compute(FOLDERS)
    assert unfrozen == ceilings.read_frozen()
