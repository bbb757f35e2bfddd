"""The recipes that mirror the paper's tables: they load, and their plans have the paper's size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from waggle import plugins
from waggle.core.seeds import Split
from waggle.evaluate.plan import Cell, cells, load
from waggle.report import catalog

FOLDER = Path(__file__).parents[2] / "recipes" / "tables"
RECIPES = sorted(path for path in FOLDER.glob("*.toml") if path.stem != "methods")
RULES = {"expert", "heuristic", "private-only", "random-legal", "first-listed", "nocomm",
         "nativemsg", "fixedswarm"}  # fmt: skip
SEEDS = {"anchors": Split.ANCHOR, "horizon": Split.HORIZON, "extension": Split.EXTENSION}


def decisions(cell: Cell) -> int:
    """Count the local updates of a cell, horizons as the substrates set them."""
    case = cell.case
    rounds = {"silo": (case.rounds or 9) + 1, "swarmbench": 100}[case.substrate]
    return case.n * rounds


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_name_laws_tables_and_figures_that_exist(path: Path) -> None:
    recipe = load(path)
    used = {name for block in recipe.blocks for name in block.methods}
    assert {recipe.methods[name].law for name in used} <= set(plugins.names("law"))
    assert set(recipe.tables) - {"scores"} <= set(catalog.TABLES)
    assert set(recipe.figures) <= set(catalog.FIGURES)
    assert set(recipe.reference) <= set(recipe.methods)
    if recipe.blocks and path.stem != "same_runtime":
        assert used >= RULES | {"nano"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_use_the_seeds_of_their_split(path: Path) -> None:
    for cell in cells(load(path)):
        wanted = (
            Split.COUNTEREVIDENCE if cell.case.shock else SEEDS.get(path.stem, Split.EVALUATION)
        )
        assert Split.of(cell.case.seed) is wanted


def test_the_primary_matrix_has_the_size_of_the_paper() -> None:
    plan = [cell for cell in cells(load(FOLDER / "primary.toml")) if cell.method == "nano"]
    assert Counter(cell.case.substrate for cell in plan) == {"silo": 450, "swarmbench": 45}
    assert sum(map(decisions, plan)) == 336_000


def test_the_reduced_matrix_is_a_part_of_the_primary_one_that_a_laptop_can_play() -> None:
    plan = [cell for cell in cells(load(FOLDER / "reduced.toml")) if cell.method == "nano"]
    primary = {cell.id for cell in cells(load(FOLDER / "primary.toml"))}
    shared = [cell for cell in plan if cell.case.substrate != "agentsnet"]
    assert {cell.id for cell in shared} <= primary
    assert sum(map(decisions, shared)) <= 20_000


def test_same_runtime_reuses_cells_of_the_primary_matrix() -> None:
    primary = {(cell.method, cell.id) for cell in cells(load(FOLDER / "primary.toml"))}
    plain = [cell for cell in cells(load(FOLDER / "same_runtime.toml")) if not cell.case.shock]
    assert all((cell.method, cell.id) in primary for cell in plain)


def test_agentsnet_has_ninety_settings_and_ten_draws() -> None:
    plan = [cell for cell in cells(load(FOLDER / "agentsnet.toml")) if cell.method == "nano"]
    by_priority = Counter(cell.case.options["priority"] for cell in plan)
    assert by_priority == {True: 900, False: 180}
