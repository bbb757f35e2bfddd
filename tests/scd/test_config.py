"""A training is named by the terms that taught more than imitation."""

from __future__ import annotations

from pathlib import Path

import pytest

from waggle.core.errors import ConfigError
from waggle.core.order import Order
from waggle.corpus.settings import HarvestSettings
from waggle.scd.config import Recipe, StageTwo, objective, read_recipe


@pytest.mark.parametrize(
    ("order", "arm", "name"),
    [
        ("canonical", "scd", "imitation in canonical order, with the field term"),
        ("canonical", "orbit", "imitation in canonical order"),
        ("canonical", "decision (warm start)", "imitation in canonical order"),
        ("shuffled", "scd", "Swarm-Consistent Distillation"),
        ("shuffled", "orbit", "imitation in shuffled order, with the orbit term"),
        ("shuffled", "field", "imitation in shuffled order, with the field term"),
    ],
)
def test_only_terms_that_taught_more_than_imitation_are_named(
    order: Order, arm: str, name: str
) -> None:
    assert objective(order, StageTwo(), arm) == name
    assert "field" not in objective(order, StageTwo(lambda_field=0), arm)


@pytest.mark.parametrize(
    ("table", "line"),
    [("corpus", "n = []"), ("corpus", "laws = []"), ("corpus", "rounds = 0"),
     ("harvest", "tasks = []"), ("harvest", "laws = []"), ("harvest", "n = []"),
     ("harvest", "rounds = -3"), ("transitions", "tasks = []"), ("transitions", "n = []")],
)  # fmt: skip
def test_a_list_of_nothing_and_no_rounds_are_refused(tmp_path: Path, table: str, line: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(f"[{table}]\n{line}\n")
    with pytest.raises(ConfigError, match=rf"{table}\.{line.split()[0]}: .*(at least|greater)"):
        read_recipe(path)


def test_a_token_corpus_is_named_by_the_kinds_it_holds() -> None:
    assert Recipe().harvested() == ""
    told = Recipe(harvest=HarvestSettings(native=4000, far=30)).harvested()
    assert told == "4,000 native views, 30 far views"
