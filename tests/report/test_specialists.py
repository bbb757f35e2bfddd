"""Joint law against specialists: a pair is one deployment, and the tolerances are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.sheets import late_row, row
from waggle.evaluate.plan import Recipe, cells, load
from waggle.evaluate.rows import Row
from waggle.report import specialists

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load(ROOT / "recipes/specialists/specialists.toml")


def rows(recipe: Recipe, joint: float) -> list[Row]:
    scores = {"joint": joint, "matched": 0.5, "oracle": 0.8, "expert": 0.9, "relay": 0.1}
    return [
        late_row(cell, hit=cell.method == "joint", latency=2.0, stale=3.0)
        if cell.case.shock
        else row(cell, scores[cell.method.partition("-")[0]])
        for cell in cells(recipe)
    ]


def test_the_plan_has_the_units_of_the_paper(recipe: Recipe) -> None:
    plan = cells(recipe)
    plain = [cell for cell in plan if not cell.case.shock]
    assert {cell.case.n for cell in plain} == {64}
    for deployment in ("joint", "matched", "oracle", "expert", "relay"):
        own = [cell for cell in plan if cell.method.startswith(deployment)]
        late = [cell for cell in own if cell.case.shock]
        quiet = [cell.case.substrate for cell in own if not cell.case.shock]
        assert (len(late), quiet.count("silo"), quiet.count("swarmbench")) == (40, 240, 16)


def test_a_pair_is_read_as_one_deployment(recipe: Recipe) -> None:
    main = specialists.main(rows(recipe, 0.8), recipe)
    assert [line[0] for line in main.rows] == [
        "Joint law", "Exposure-matched specialist pair", "Oracle specialist pair",
        "Expert, the teacher", "Relay, a floor",
    ]  # fmt: skip
    assert [line[2] for line in main.rows] == [
        "0.800 / 100.0", "0.500 / 62.5", "0.800 / 100.0", "0.900 / 112.5", "0.100 / 12.5",
    ]  # fmt: skip
    assert [line[-1] for line in main.rows] == ["1", "2", "2", "1", "1"]
    recovery = specialists.recovery(rows(recipe, 0.8), recipe)
    assert [line[1].split()[0] for line in recovery.rows] == ["40/40", *["0/40"] * 4]


@pytest.mark.parametrize(("joint", "said"), [(0.78, "kept, kept"), (0.7, "missed, missed")])
def test_tolerances_are_judged_against_the_oracle_pair(
    recipe: Recipe, joint: float, said: str
) -> None:
    matched, oracle, *others = specialists.effects(rows(recipe, joint), recipe).rows
    assert oracle[-1] == said and {matched[-1], *(other[-1] for other in others)} == {"—"}
    assert oracle[3].startswith(f"{joint - 0.8:+.3f}") and oracle[4] == "16 / 240"
    assert specialists.effects([], recipe).rows == ()
