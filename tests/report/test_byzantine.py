"""The table of Byzantine agents, from rows made by hand, and the recipe that asks for it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.report.sheets import row
from waggle.core.seeds import Split
from waggle.evaluate.plan import Recipe, cells, load
from waggle.report import catalog

RECIPE = Path(__file__).parents[2] / "recipes" / "trust" / "byzantine.toml"
LIARS = {"byzantine": 0.1, "attack": "stale"}
METHODS = {
    "plain": {"law": "expert"},
    "lied-to": {"law": "expert", "perturbation": LIARS},
    "guarded": {"law": "expert", "perturbation": LIARS, "switches": {"channels": 3}},
    "other": {"law": "heuristic", "perturbation": LIARS},
}
HONEST = {"lied-to": 0.6, "guarded": 0.8, "other": 0.5}


def test_losses_are_paired_with_the_same_law_and_gains_with_the_same_liars() -> None:
    block = {"methods": list(METHODS), "tasks": ["silo/I-01"], "n": [16], "seeds": [20_000, 20_001]}
    recipe = Recipe.model_validate({"title": "T", "methods": METHODS, "blocks": [block]})
    rows = []
    for cell in cells(recipe):
        made = row(cell, 1.0 if cell.method == "plain" else 0.4)
        own = {"honest": HONEST[cell.method]} if cell.method in HONEST else {}
        rows.append(msgspec.structs.replace(made, scores={**made.scores, **own}))
    table = catalog.table("byzantine")(rows, recipe)
    lines = {line[0]: dict(zip(table.columns, line, strict=True)) for line in table.rows}
    assert lines["plain"]["honest"] == "1.000" and lines["plain"]["Δ no liars"] == "—"
    assert lines["lied-to"]["score"] == "0.400" and lines["lied-to"]["honest"] == "0.600"
    assert lines["lied-to"]["Δ no liars"].startswith("-0.400 [")
    assert lines["lied-to"]["Δ no defence"] == "—"
    assert lines["guarded"]["Δ no liars"].startswith("-0.200 [")
    assert lines["guarded"]["Δ no defence"].startswith("+0.200 [")
    assert lines["other"]["Δ no liars"] == "—"  # its law was not played without liars


def test_the_recipe_asks_for_what_exists_on_seeds_of_evaluation() -> None:
    recipe = load(RECIPE)
    catalog.check(recipe)
    plan = cells(recipe)
    assert {Split.of(cell.case.seed) for cell in plan} == {Split.EVALUATION, Split.AGENTSNET}
    shares = {cell.perturbation.get("byzantine", 0) for cell in plan if cell.method[:6] == "expert"}
    assert shares == {0, 0.05, 0.1, 0.2}
