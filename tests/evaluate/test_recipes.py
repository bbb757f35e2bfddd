"""The recipes that mirror the paper's tables: they load, and their plans have the paper's size."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from waggle import plugins
from waggle.core.seeds import Split
from waggle.evaluate.plan import Cell, Recipe, cells, load
from waggle.evaluate.selection import decisions
from waggle.report import catalog

RECIPES = Path(__file__).parents[2] / "recipes"
TABLES = sorted(p.stem for p in RECIPES.glob("tables/*.toml") if p.stem != "methods")
LATE = sorted(path.stem for path in RECIPES.glob("reorganization/*.toml"))
RULES = {"expert", "heuristic", "private-only", "random-legal", "first-listed", "nocomm",
         "nativemsg", "fixedswarm", "relay"}  # fmt: skip
SEEDS = {"anchors": Split.ANCHOR, "second_seeds": Split.ANCHOR, "horizon": Split.HORIZON,
         "extension": Split.EXTENSION}  # fmt: skip


@cache
def planned(name: str) -> tuple[Recipe, list[Cell]]:
    """Return a recipe and its cells."""
    recipe = load(next(RECIPES.glob(f"*/{name}.toml")))
    return recipe, cells(recipe)


def of_nano(name: str) -> list[Cell]:
    return [cell for cell in planned(name)[1] if cell.method == "nano"]


def test_recipes_name_what_exists_and_say_what_they_compare() -> None:
    for name in (*TABLES, *LATE):
        recipe, _ = planned(name)
        used = {method for block in recipe.blocks for method in block.methods}
        assert {recipe.methods[method].law for method in used} <= set(plugins.names("law"))
        catalog.check(recipe)
        assert set(recipe.reference) <= set(recipe.methods), name
        assert recipe.about.endswith("."), name
        if name in TABLES and recipe.blocks and name != "same_runtime":
            assert used >= RULES | {"nano"}, name


def test_recipes_use_the_seeds_of_their_split() -> None:
    for name in (*TABLES, *LATE):
        for cell in planned(name)[1]:
            plain = Split.AGENTSNET if cell.case.substrate == "agentsnet" else Split.EVALUATION
            wanted = Split.COUNTEREVIDENCE if cell.case.shock else SEEDS.get(name, plain)
            assert Split.of(cell.case.seed) is wanted, name


def test_the_primary_matrix_has_the_size_of_the_paper_and_a_longer_foraging() -> None:
    plan = of_nano("primary")
    assert Counter(cell.case.substrate for cell in plan) == {"silo": 450, "swarmbench": 45}
    longer = sum(100 * cell.case.n for cell in plan if cell.case.task == "foraging")
    assert sum(map(decisions, plan)) == 336_000 + longer


def test_the_reduced_matrix_is_a_part_of_the_primary_one_that_a_laptop_can_play() -> None:
    plan = of_nano("reduced")
    shared = [cell for cell in plan if cell.case.substrate != "agentsnet"]
    assert {cell.id for cell in shared} <= {cell.id for cell in of_nano("primary")}
    assert len({cell.case.substrate for cell in plan}) == 3
    assert sum(map(decisions, plan)) <= 12_000


def test_same_runtime_reuses_cells_of_the_primary_matrix() -> None:
    plain = {cell.key for cell in planned("same_runtime")[1] if not cell.case.shock}
    assert plain <= {cell.key for cell in planned("primary")[1]}


def test_agentsnet_has_ninety_settings_and_ten_draws() -> None:
    by_priority = Counter(cell.case.options["priority"] for cell in of_nano("agentsnet"))
    assert by_priority == {True: 900, False: 180}


def test_late_counterevidence_has_the_settings_of_the_paper() -> None:
    for name in LATE:
        recipe, plan = planned(name)
        late = Counter(cell.method for cell in plan if cell.case.shock)
        plain = Counter(cell.method for cell in plan if not cell.case.shock)
        assert recipe.keep
        assert {cell.case.n for cell in plan if cell.case.shock} == {32, 64}
        if name == "sensitivity":
            own = [method for method in late if method.startswith("nano")]
            shared = 10 * sum("refresh" in method for method in own)
            assert len(own) == 7 and sum(late[m] + plain[m] for m in own) + shared == 210
        elif name == "factorial":
            beside = [late.pop("expert"), late.pop("random-legal")]  # the teacher and a floor, ours
            assert beside == [40, 40] and sum(late.values()) == 800
            assert sum(plain.values()) == 1_020
        else:
            assert set(late.values()) == {40} and not plain, name


def test_late_counterevidence_is_played_by_nano_to_the_longer_horizon() -> None:
    for name in LATE:
        if not name.startswith("factorial"):
            plan = [cell for cell in of_nano(name) if cell.case.shock]
            assert plan, name
            whole = [cell for cell in plan if cell.case.task != "pursuit"]
            assert all(decisions(cell) in (200 * cell.case.n, 37 * cell.case.n) for cell in whole)
