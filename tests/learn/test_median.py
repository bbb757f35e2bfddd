"""The median example: a third-party world without an expert, and a tiny law that learns it."""

import re
import tomllib
from pathlib import Path
from statistics import mean

import pytest

from waggle import Case, play, plugins
from waggle.core.errors import ConfigError
from waggle.learn.config import Settings, read_settings
from waggle.testing import check_law, check_substrate

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def median(clean_registry: None) -> None:
    plugins.load_file(ROOT / "examples" / "median" / "median.py")


def scores(law: str, n: int, cases: int = 24) -> float:
    """Return the mean score of a law on development cases."""
    found = []
    for seed in range(10_000, 10_000 + cases):
        case = Case("median", "median", n, seed)
        world = plugins.get_substrate("median").open(case)
        found.append(play(world, plugins.get_law(law), case).scores["score"])
    return mean(found)


def test_the_world_and_the_rule_keep_the_contract() -> None:
    check_substrate("median", n=7).require()
    check_law("median-rule", "median", n=5).require()


def test_it_takes_communication() -> None:
    assert scores("median-rule", 5) == 1.0 and scores("median-rule", 7) > 0.9
    assert scores("heuristic", 7) < 0.5, "it tells its number and answers its own"
    assert scores("random-legal", 7) < 0.3


@pytest.mark.parametrize("even", [True, False])
def test_the_shares_of_nodes_average_to_the_score(even: bool) -> None:
    case = Case("median", "median", 6, 3, rounds=2, options={"even": even})
    world = plugins.get_substrate("median").open(case)
    score = play(world, plugins.get_law("median-rule"), case).scores["score"]
    assert mean(world.share(node) for node in range(6)) == pytest.approx(score)  # type: ignore[attr-defined]
    assert "median" in world.render()


def test_no_constant_answer_pays_where_medians_are_even() -> None:
    def medians(even: bool) -> list[str]:
        cases = [Case("median", "median", 5, seed, options={"even": even}) for seed in range(400)]
        worlds = [plugins.get_substrate("median").open(case) for case in cases]
        return [re.findall(r"median (\d)", world.render())[0] for world in worlds]

    even, drawn = medians(True), medians(False)
    assert {number: even.count(number) > 50 for number in "01234"} == dict.fromkeys("01234", True)
    assert drawn.count("2") > 120 > 40 > drawn.count("0")


@pytest.mark.parametrize(
    "case", [Case("median", "median", 2, 0), Case("median", "median", 5, 0, shock=True)]
)
def test_a_wrong_case_is_one_line(case: Case) -> None:
    with pytest.raises(ConfigError, match="3 to 32 agents, and no shock"):
        plugins.get_substrate("median").open(case)


def test_the_recipe_is_read() -> None:
    path = ROOT / "recipes" / "learn" / "median.toml"
    settings = read_settings(path)
    assert isinstance(settings, Settings) and settings.start == "nano"
    assert tomllib.loads(path.read_text())["minutes"] <= 10
