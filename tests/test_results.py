"""The archives of the repository: whole, of the recipes they name, and what is frozen from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from waggle.evaluate import anchors, plan
from waggle.evaluate.rows import read_rows

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path.parent for path in (ROOT / "results").glob("*/recipe.json"))


def test_there_are_some() -> None:
    assert "primary" in {folder.name for folder in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_row_is_planned_by_the_recipe_it_names(folder: Path) -> None:
    kept = plan.load(folder / "recipe.json")
    today = plan.cells(plan.load(ROOT / kept.source))
    rows = read_rows(folder)
    assert rows and not any(row.error for row in rows)
    assert {(row.method, row.cell) for row in rows} <= {(cell.method, cell.id) for cell in today}


def test_the_anchors_are_those_of_the_rows() -> None:
    frozen = anchors.load()
    assert anchors.freeze(read_rows(ROOT / "results" / "anchors"), frozen.command) == frozen
