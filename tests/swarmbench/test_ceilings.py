"""Free telling: the same private episode, and who hears of a site."""

import pytest

from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.runtime import sync
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.ceilings import REACHES, play_told
from waggle.testing.bound_swarmbench import told_table


def case(task: str = "pursuit", n: int = 16, seed: int = 10_000, rounds: int | None = None) -> Case:
    return Case("swarmbench", task, n, seed, rounds=rounds)


@pytest.mark.parametrize("task", ["pursuit", "foraging"])
@pytest.mark.parametrize("seed", [10_000, 10_001, 10_002])
def test_telling_nobody_is_the_private_only_episode(task, seed):
    played = case(task, 8, seed)
    world = SwarmBench().open(played)
    footer = sync.play(world, plugins.get_law("private-only"), played)
    assert play_told(played, "nobody") == footer.scores["score"]


def test_each_reach_hears_at_least_what_a_smaller_one_hears():
    episode = SwarmBench().open(case(n=32))
    for node in episode.active():
        heard = {name: set(audience(episode, node)) for name, audience in REACHES.items()}
        assert heard["nobody"] < heard["everyone"] == set(episode.active()) - {node}
        assert heard["contacts"] <= heard["flooding"] <= heard["everyone"]
        assert heard["contacts"] <= heard["within 6"] <= heard["within 12"]
        assert heard["contacts"] == set(episode.neighbours(node))


def test_flooding_reaches_beyond_contacts_somewhere():
    episode = SwarmBench().open(case(n=32))
    extra = [
        set(REACHES["flooding"](episode, node)) - set(episode.neighbours(node))
        for node in episode.active()
    ]
    assert any(extra)


def test_words_of_food_bring_food_home():
    cases = [case("foraging", 16, seed) for seed in (10_000, 10_001, 10_002)]
    silent = sum(play_told(each, "nobody") for each in cases)
    assert sum(play_told(each, "everyone") for each in cases) > silent


def test_rows_are_paired_with_telling_nobody():
    rows = told_table(("pursuit",), (8,), range(10_000, 10_003))
    assert [row.told for row in rows] == list(REACHES)
    silent = rows[0]
    assert silent.above_private[:3] == (0, 0, 0)
    for row in rows:
        assert row.above_private.mean == pytest.approx(row.score - silent.score)
        assert row.above_private.units == 3


def test_hearing_after_the_round_is_another_episode_than_hearing_at_once():
    cases = [case("pursuit", 32, seed) for seed in (10_100, 10_101, 10_102)]
    late = [play_told(each, "contacts late") for each in cases]
    assert late != [play_told(each, "contacts") for each in cases]


@pytest.mark.parametrize(
    ("task", "told", "hint"),
    [("flocking", "contacts", "pursuit or foraging"), ("pursuit", "contact", "contacts")],
)
def test_mistakes_name_the_choices(task, told, hint):
    with pytest.raises(ConfigError, match=hint):
        play_told(case(task, rounds=2), told)
