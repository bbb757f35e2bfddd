"""Private workers in recipes: ids, rows, and another worker from the command line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from waggle.cli.main import main
from waggle.core.seeds import Split
from waggle.evaluate.plan import cells, load
from waggle.evaluate.rows import read_rows

ROOT = Path(__file__).parents[2]
RECIPE = """
title = "Workers"
about = "Two schedules."
tables = ["worker-reuse"]
[methods.full]
law = "expert"
worker = { name = "native" }
[methods.lean]
law = "expert"
worker = { name = "native", schedule = "reuse" }
[methods.plain]
law = "expert"
[[blocks]]
methods = ["full", "lean", "plain"]
tasks = ["silo/II-16"]
n = [8]
seeds = { start = 10000, count = 2 }
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "workers.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def test_a_cell_without_workers_keeps_its_id_and_the_cache_is_no_part_of_it(recipe: Path) -> None:
    full, lean, plain = (cell for cell in cells(load(recipe)) if cell.case.seed == 10_000)
    assert plain.id == "faca5e454bc05d4f", "rows of results/ are found by ids like this one"
    assert len({full.id, lean.id, plain.id}) == 3
    cached = msgspec.structs.replace(full, worker={**full.worker, "cache": "a.sqlite"})
    assert cached.id == full.id


def test_rows_count_workers_and_scores_do_not_depend_on_the_schedule(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", str(recipe), "--out", str(tmp_path / "run"), "--executor", "inline"]
    assert main(words) == 0
    rows = {(row.method, row.seed): row for row in read_rows(tmp_path / "run")}
    for seed in (10_000, 10_001):
        full, lean, plain = (rows[name, seed] for name in ("full", "lean", "plain"))
        assert full.scores == lean.scores == plain.scores
        assert lean.counters["worker.calls"] < full.counters["worker.calls"] == 80
        assert "worker.calls" not in plain.counters
    slips = ["--out", str(tmp_path / "slips"), "--worker", "slips", "--worker.rate", "0.9"]
    assert main([*words[:2], *slips, "--executor", "inline"]) == 0
    wrong = {(row.method, row.seed): row for row in read_rows(tmp_path / "slips")}
    assert wrong["full", 10_000].scores["score"] < rows["full", 10_000].scores["score"]
    assert wrong["plain", 10_000].scores == rows["plain", 10_000].scores
    capsys.readouterr()
    assert main(["eval", "recipes/tables/reduced.toml", "--worker", "native"]) == 2
    assert "no method of the recipe has private workers" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "episodes"), [("private_workers", 180), ("private_reuse", 100)])
def test_the_recipes_of_the_paper_have_its_size(name: str, episodes: int) -> None:
    plan = cells(load(ROOT / "recipes" / "workers" / f"{name}.toml"))
    assert len(plan) == episodes
    assert all(cell.case.n == 32 and cell.case.seed in Split.WORKERS for cell in plan)
