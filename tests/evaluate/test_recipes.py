"""The recipes that mirror the paper's tables: they load, and their plans have the paper's size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from waggle import plugins
from waggle.core.seeds import Split
from waggle.evaluate.plan import cells, load
from waggle.evaluate.selection import decisions
from waggle.report import catalog

FOLDER = Path(__file__).parents[2] / "recipes" / "tables"
RECIPES = sorted(path for path in FOLDER.glob("*.toml") if path.stem != "methods")
LATE = sorted(
    path
    for path in FOLDER.parent.glob("reorganization/*.toml")
    if not path.stem.startswith("factorial")
)
RULES = {"expert", "heuristic", "private-only", "random-legal", "first-listed", "nocomm",
         "nativemsg", "fixedswarm"}  # fmt: skip
SEEDS = {"anchors": Split.ANCHOR, "horizon": Split.HORIZON, "extension": Split.EXTENSION}


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
    assert len({cell.case.substrate for cell in plan}) == 3
    assert sum(map(decisions, plan)) <= 10_000


def test_same_runtime_reuses_cells_of_the_primary_matrix() -> None:
    primary = {(cell.method, cell.id) for cell in cells(load(FOLDER / "primary.toml"))}
    plain = [cell for cell in cells(load(FOLDER / "same_runtime.toml")) if not cell.case.shock]
    assert all((cell.method, cell.id) in primary for cell in plain)


def test_agentsnet_has_ninety_settings_and_ten_draws() -> None:
    plan = [cell for cell in cells(load(FOLDER / "agentsnet.toml")) if cell.method == "nano"]
    by_priority = Counter(cell.case.options["priority"] for cell in plan)
    assert by_priority == {True: 900, False: 180}


@pytest.mark.parametrize("path", LATE, ids=lambda path: path.stem)
def test_late_counterevidence_is_played_by_nano_on_its_own_seeds(path: Path) -> None:
    recipe = load(path)
    assert recipe.keep and {recipe.methods[name].law for name in recipe.methods} >= {"nano"}
    shocked = [cell for cell in cells(recipe) if cell.case.shock]
    assert {Split.of(cell.case.seed) for cell in shocked} == {Split.COUNTEREVIDENCE}
    assert {cell.case.n for cell in shocked} == {32, 64}
    whole = [cell for cell in shocked if cell.method == "nano" and cell.case.task != "pursuit"]
    assert all(decisions(cell) in (100 * cell.case.n, 37 * cell.case.n) for cell in whole)
