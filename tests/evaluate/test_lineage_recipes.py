"""Recipes of the clean lineage: two arms that differ in their problems alone, one evaluation."""

from __future__ import annotations

from pathlib import Path

from waggle.core.seeds import Split
from waggle.evaluate.plan import cells, load
from waggle.report import catalog
from waggle.scd.config import read_recipe

LINEAGE = Path(__file__).parents[2] / "recipes" / "lineage"


def test_the_arms_differ_in_their_graph_problems_alone() -> None:
    far, near = (read_recipe(LINEAGE / f"{name}.toml") for name in ("far", "near"))
    for recipe in (far, near):
        assert recipe.backbone == "nano" and recipe.order == "canonical"
    assert not far.harvest.near and near.harvest.near
    assert far.harvest.far == near.harvest.far + near.harvest.near
    assert far.stage_one == near.stage_one and far.stage_two == near.stage_two


def test_transfer_is_played_on_evaluation_seeds_with_its_controls() -> None:
    recipe = load(LINEAGE / "transfer.toml")
    catalog.check(recipe)
    plan = cells(recipe)
    assert {cell.case.n for cell in plan} == {8, 16, 100}
    assert {Split.of(cell.case.seed) for cell in plan} == {Split.AGENTSNET}
    swapped = [cell.case for cell in plan if cell.case.options.get("goal")]
    assert {case.task for case in swapped} == {cell.case.task for cell in plan}
    assert all(case.options["goal"] != case.task for case in swapped)
    assert {cell.case.options["priority"] for cell in plan} == {True, False}
