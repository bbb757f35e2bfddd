"""The table of Byzantine agents, from rows made by hand, and the recipe that asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.report.sheets import row
from waggle.core.seeds import Split
from waggle.evaluate.plan import Recipe, cells, load
from waggle.evaluate.rows import Row
from waggle.report import byzantine, catalog
from waggle.report.web.opening import opening
from waggle.runtime.perturb import Perturbation, Schedule
from waggle.substrates.silo.cases import independent_case

RECIPE = Path(__file__).parents[2] / "recipes" / "trust" / "byzantine.toml"
LIARS = {"byzantine": 0.1, "attack": "silent"}
METHODS: dict[str, dict[str, Any]] = {
    "plain": {"law": "expert"},
    "lied-to": {"law": "expert", "perturbation": LIARS},
    "guarded": {"law": "expert", "perturbation": LIARS, "defence": {"reopening": 1}},
    "half": {"law": "expert", "perturbation": {**LIARS, "byzantine": 0.2}},
    "other": {"law": "heuristic", "perturbation": LIARS},
}
HONEST = {"lied-to": 0.6, "guarded": 0.8, "half": 0.5, "other": 0.5}


def played(
    task: str = "silo/I-01", methods: dict[str, dict[str, Any]] = METHODS
) -> tuple[list[Row], Recipe]:
    block = {"methods": list(methods), "tasks": [task], "n": [16], "seeds": [20_000, 20_001]}
    recipe = Recipe.model_validate({"title": "T", "methods": methods, "blocks": [block]})
    rows = []
    for cell in cells(recipe):
        made = row(cell, 1.0 if cell.method == "plain" else 0.4)
        own = {"honest": HONEST[cell.method]} if cell.method in HONEST else {}
        rows.append(msgspec.structs.replace(made, scores={**made.scores, **own}))
    return rows, recipe


def test_losses_are_paired_with_the_same_law_and_gains_with_the_same_liars() -> None:
    table = catalog.table("byzantine-silo")(*played())
    lines = [dict(zip(table.columns, line, strict=True)) for line in table.rows]
    assert [(line["law"], line["attack"], line["share"]) for line in lines] == [
        ("plain", "none", "0 %"), ("plain", "silent", "10 %"), ("plain", "silent", "20 %"),
    ]  # fmt: skip  # the law that was not played without liars has nothing to be compared with
    none, tenth, _ = lines
    assert none["honest"] == "1.000" and none["Δ no liars"] == "—" == none["reach"]
    assert tenth["honest"] == "0.600" and tenth["Δ no liars"].startswith("-0.400 [")
    assert tenth["Δ reopening"].startswith("+0.200 [") and tenth["Δ provenance"] == "—"


def test_the_reach_leaves_out_what_attackers_hold() -> None:
    table = catalog.table("byzantine-silo")(*played())
    tenth = dict(zip(table.columns, table.rows[1], strict=True))
    shares = []
    for seed in (20_000, 20_001):
        case = independent_case("I-01", 16, seed)
        liars = Schedule(Perturbation(byzantine=0.1), seed, range(16), 1).byzantine
        known = sum(1 << i for i in range(16) if i not in liars)
        shares += [case.is_right(known, i) for i in range(16) if i not in liars]
    assert tenth["reach"] == f"{sum(shares) / len(shares):.3f}"


def test_a_law_under_attack_is_no_law_of_its_own_in_the_opening() -> None:
    told = opening(*played())
    assert told is not None and "lied-to" not in " ".join(
        (told.outcome, *(row[1] for row in told.table()[0].rows))
    )


def test_curves_are_drawn_for_rows_of_every_world() -> None:
    drawn = catalog.figure("byzantine")(*played())
    assert drawn.svg and "share of attackers" in drawn.title


def test_the_titles_of_neighbouring_panels_do_not_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest name of a task is wider than a panel beside a legend."""
    drawn: list[Any] = []
    monkeypatch.setattr(byzantine, "finish", lambda axes, *about: drawn.extend(axes))
    attacked = {"law": "expert", "perturbation": {"byzantine": 0.1, "attack": "stale"}}
    plain = {"law": "expert", "label": "FixedSwarm, all defences"}
    catalog.figure("byzantine")(
        *played("swarmbench/synchronization", {"plain": plain, "stale": attacked})
    )
    left, right = drawn
    left.figure.draw_without_rendering()
    first, second = (axis.title.get_window_extent() for axis in (left, right))
    assert first.x1 < second.x0


def test_the_recipe_asks_for_what_exists_on_seeds_of_evaluation() -> None:
    recipe = load(RECIPE)
    catalog.check(recipe)
    plan = cells(recipe)
    assert {Split.of(cell.case.seed) for cell in plan} == {Split.EVALUATION, Split.AGENTSNET}
    shares = {cell.perturbation.get("byzantine", 0) for cell in plan if cell.method[:6] == "expert"}
    assert shares == {0, 0.05, 0.1, 0.2}
    defended = {str(cell.defence) for cell in plan if cell.method.startswith("nano")}
    assert len(defended) == 1 + len(byzantine.DEFENCES)  # each alone, all together, none
