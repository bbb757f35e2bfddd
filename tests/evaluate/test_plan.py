from __future__ import annotations

from pathlib import Path

import pytest

from waggle.core.errors import ConfigError
from waggle.evaluate.plan import cells, load
from waggle.plugins import Task

RECIPE = """
title = "Small"
[methods.expert]
law = "expert"
[methods.lossy]
law = "heuristic"
order = "canonical"
perturbation = { loss = 0.1 }
[[blocks]]
methods = ["expert", "lossy"]
tasks = ["beacon"]
n = [4, 6]
seeds = { start = 10000, count = 3 }
shock = true
"""


def recipe(tmp_path: Path, text: str = RECIPE) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_cells_are_the_product_with_stable_ids(tmp_path: Path) -> None:
    plan = cells(load(recipe(tmp_path)))
    assert len(plan) == 2 * 2 * 3
    again = cells(load(recipe(tmp_path, RECIPE.replace("Small", "Renamed"))))
    assert [c.id for c in plan] == [c.id for c in again]
    assert len({c.id for c in plan}) == len(plan)


def test_an_added_block_keeps_the_ids_and_repeats_are_one_cell(tmp_path: Path) -> None:
    more = RECIPE + RECIPE[RECIPE.index("[[blocks]]") :].replace("count = 3", "count = 4")
    before = {c.id for c in cells(load(recipe(tmp_path)))}
    after = {c.id for c in cells(load(recipe(tmp_path, more)))}
    assert before < after and len(after) == 16


def test_what_determines_an_episode_is_in_its_id(tmp_path: Path) -> None:
    base = {c.id for c in cells(load(recipe(tmp_path)))}
    for old, new in (("0.1", "0.2"), ("shock = true", "shock = false"), ("[4, 6]", "[4, 8]")):
        changed = {c.id for c in cells(load(recipe(tmp_path, RECIPE.replace(old, new))))}
        assert changed != base


def test_patterns_stand_for_methods_in_the_order_of_the_recipe(tmp_path: Path) -> None:
    asked = RECIPE.replace('["expert", "lossy"]', '["loss*", "*"]')
    assert load(recipe(tmp_path, asked)).blocks[0].methods == ["lossy", "expert"]
    with pytest.raises(ConfigError, match="no method of the recipe matches 'nano\\*'"):
        load(recipe(tmp_path, asked.replace("loss*", "nano*")))


def test_horizons_multiply(tmp_path: Path) -> None:
    plan = cells(load(recipe(tmp_path, RECIPE.replace("n = [4, 6]", "n = [4]\nrounds = [3, 6]"))))
    assert sorted({c.case.rounds for c in plan if c.case.rounds}) == [3, 6]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title =", "titel =", "titel: .* did you mean 'title'"),
        ("order =", "ordre =", "methods.lossy.ordre: there is no such key here"),
        ('"expert", "lossy"', '"expret"', "did you mean 'expert'"),
        ('["beacon"]', '["beacn"]', "did you mean 'beacon'"),
        ('["beacon"]', '["nothing/*"]', "no task matches"),
        ("loss = 0.1", "los = 0.1", "perturbation has no 'los'.*did you mean 'loss'"),
        ("loss = 0.1", "loss = 7", "share from 0 to 1"),
        ("n = [4, 6]", "n = [0]", "n.0"),
        ("count = 3", "count = 0", "count"),
        ('tasks = ["beacon"]', "tasks = []", "tasks: List should have at least 1 item"),
        ("n = [4, 6]", "n = []", "n: List should have at least 1 item"),
        ("{ start = 10000, count = 3 }", "[]", "seeds.list: List should have at least 1 item"),
        ("{ start = 10000, count = 3 }", "[-4]", "seeds.list.0: .* greater than or equal to 0"),
        ("shock = true", "vary = { beacon = { reach = [] } }", "reach: List should have"),
        ("shock = true", "vary = { becon = { reach = [1] } }", "did you mean 'beacon'"),
        ("shock = true", "options = { silo = {} }", "change nothing: .* tasks of beacon"),
        ('title = "Small"', 'title = "a\\nb"', "title"),
        ('title = "Small"', 'title = "T"\nreference = ["expret"]', "did you mean 'expert'"),
        ("methods.expert", 'methods."../expert"', "should match"),
        ("loss = 0.1", "call_delay = 2", "method 'lossy': slow calls .* need the engine `event`"),
        ("loss = 0.1", "churn_at = -1", "round from 0 on"),
        ('law = "expert"', 'law = "expert"\nswitches = { coherence = nan }', "share from 0 to 1"),
        ('law = "expert"', 'law = "expert"\nswitches = { refresh = 0 }', "1 round or more"),
        ('law = "expert"', 'law = "expert"\nswitches = { support = -1 }', "0 or more"),
        ('law = "expert"', 'law = "expert"\nworker = { schedule = "full" }', "worker has no name"),
        ('title = "Small"', "title =", "not TOML"),
        ('title = "Small"', "title = " + "[" * 5_000, "not TOML"),
        ('title = "Small"', 'methods_from = "a\\u0000b"', "not TOML"),
        ('title = "Small"', 'backbone = "nano"', "a recipe of training; use `waggle train"),
        (
            RECIPE,
            RECIPE + "options = { beacon = { scoutz = 0.5 } }\n",
            "beacon has no option 'scoutz'; it has .*did you mean 'scouts'",
        ),
        (RECIPE, 'tasks = ["beacon"]\ncredit = "group"', "of learning; use `waggle learn TASK"),
    ],
)
def test_bad_recipes_are_one_clear_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        cells(load(recipe(tmp_path, RECIPE.replace(old, new))))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("asked", ["lamp/dim", "dim", "lamp/*"])
def test_a_world_that_is_not_here_is_known_by_what_was_played(tmp_path: Path, asked: str) -> None:
    plan = load(recipe(tmp_path, RECIPE.replace('["beacon"]', f'["beacon", "{asked}"]')))
    with pytest.raises(ConfigError, match="see `waggle list"):
        cells(plan)
    tasks = {c.case.task for c in cells(plan, [Task("lamp", "dim"), Task("beacon", "beacon")])}
    assert tasks == {"beacon", "dim"}


@pytest.mark.parametrize("theirs", ["methods = []", "methods = 3"])
def test_methods_of_another_recipe_must_be_tables(tmp_path: Path, theirs: str) -> None:
    (tmp_path / "other.toml").write_text(theirs)
    with pytest.raises(ConfigError, match="one table for each"):
        load(recipe(tmp_path, 'methods_from = "other.toml"\n' + RECIPE))


def test_missing_recipe(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path / "no.toml")


def test_varied_options_multiply(tmp_path: Path) -> None:
    text = RECIPE + "options = { beacon = { scouts = 0.5 } }\n"
    text += 'vary = { beacon = { graph = ["rings", "cubic"] } }\n'
    plan = cells(load(recipe(tmp_path, text)))
    assert len(plan) == 2 * 2 * 3 * 2
    assert {tuple(sorted(c.case.options.items())) for c in plan} == {
        (("graph", "rings"), ("scouts", 0.5)),
        (("graph", "cubic"), ("scouts", 0.5)),
    }


def test_methods_may_come_from_a_shared_file(tmp_path: Path) -> None:
    head, _, blocks = RECIPE.partition("[[blocks]]")
    (tmp_path / "shared.toml").write_text(head.replace('title = "Small"', ""))
    text = f'title = "Small"\nmethods_from = "shared.toml"\n[[blocks]]{blocks}'
    shared = cells(load(recipe(tmp_path, text)))
    assert [c.id for c in shared] == [c.id for c in cells(load(recipe(tmp_path)))]
    own = text.replace("[[blocks]]", '[methods.lossy]\nlaw = "heuristic"\n[[blocks]]', 1)
    assert {c.id for c in cells(load(recipe(tmp_path, own)))} != {c.id for c in shared}


def test_the_settled_recipe_reads_back_from_json(tmp_path: Path) -> None:
    made = load(recipe(tmp_path))
    path = tmp_path / "recipe.json"
    path.write_text(made.model_dump_json())
    assert load(path) == made and made.source.endswith("recipe.toml")
    path.write_text("[1]")
    with pytest.raises(ConfigError, match="no recipe"):
        load(path)


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('law = "expert"', 'lwa = "expert"', "methods.expert.lwa: .*; did you mean 'law'"),
        ("count = 3", "cuont = 3", "blocks.0.seeds.cuont: .*; did you mean 'count'"),
        ("[[blocks]]", "[[block]]", "block: .*; did you mean 'blocks'"),
        ('law = "expert"', "", "methods.expert.law: is missing"),
    ],
)
def test_a_misspelled_key_is_told_by_its_own_name(
    tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(recipe(tmp_path, RECIPE.replace(right, wrong)))
