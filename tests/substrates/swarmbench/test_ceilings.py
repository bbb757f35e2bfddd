"""Free communication: the same private episode, and who hears of a site."""

from functools import cache

import pytest

from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.runtime import sync
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.ceilings import (
    REACHES,
    TASKS,
    WALKED,
    counted,
    deliveries,
    play_sharing,
    walked,
)
from waggle.testing.bound_swarmbench import sharing_table


def case(task: str = "pursuit", n: int = 16, seed: int = 10_000, rounds: int | None = None) -> Case:
    return Case("swarmbench", task, n, seed, rounds=rounds)


@cache
def foraged(n: int, seed: int, reach: str) -> float:
    """Play an episode that several tests look at."""
    return play_sharing(case("foraging", n, seed), reach)


@pytest.mark.parametrize("task", TASKS)
def test_the_reach_nobody_is_the_private_only_episode(task: str) -> None:
    played = case(task, 8, 10_001)
    world = SwarmBench().open(played)
    footer = sync.play(world, plugins.get_law("private-only"), played)
    assert play_sharing(played, "nobody") == footer.scores["score"]


def test_each_reach_hears_at_least_what_a_smaller_one_hears() -> None:
    episode = SwarmBench().open(case(n=32))
    for node in episode.active():
        heard = {name: set(audience(episode, node)) for name, audience in REACHES.items()}
        assert heard["nobody"] < heard["everyone"] == set(episode.active()) - {node}
        assert heard["contacts"] <= heard["flooding"] <= heard["everyone"]
        assert heard["contacts"] <= heard["within 6"] <= heard["within 12"]
        assert heard["contacts"] == set(episode.neighbours(node))


def test_flooding_reaches_beyond_contacts_somewhere() -> None:
    episode = SwarmBench().open(case(n=32))
    extra = [
        set(REACHES["flooding"](episode, node)) - set(episode.neighbours(node))
        for node in episode.active()
    ]
    assert any(extra)


def test_reports_of_food_bring_food_home() -> None:
    silent, told = (
        sum(foraged(16, seed, reach) for seed in (10_000, 10_003))
        for reach in ("nobody", "everyone")
    )
    assert told > silent


@pytest.fixture
def few_reaches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cut the table to three reaches, which is enough to see how it is made."""
    few = {name: REACHES[name] for name in ("nobody", "contacts", "everyone")}
    monkeypatch.setattr("waggle.testing.bound_swarmbench.REACHES", few)
    return list(few)


def test_rows_are_paired_with_the_reach_nobody(few_reaches: list[str]) -> None:
    rows = sharing_table(("pursuit",), (8,), range(10_000, 10_002))
    assert [row.reach for row in rows] == few_reaches
    silent = rows[0]
    assert silent.above_private[:3] == (0, 0, 0)
    for row in rows:
        assert row.above_private.mean == pytest.approx(row.score - silent.score)
        assert row.above_private.units == 2


def test_hearing_after_the_round_is_another_episode_than_hearing_at_once() -> None:
    cases = [case("pursuit", 24, seed, rounds=80) for seed in (10_100, 10_101)]
    late = [play_sharing(each, "contacts late") for each in cases]
    assert late != [play_sharing(each, "contacts") for each in cases]


CORRIDOR = ["WWWWWWWWW", "WF.....NW", "WWWWWWWWW", "W.......W", "WWWWWWWWW"]
"""Food is touched in column 2, the nest in column 6: four steps apart."""


@pytest.mark.parametrize(
    ("column", "rounds", "pieces"),
    [
        (4, 5, 0), (4, 6, 1),  # two steps to the food and four to the nest
        (4, 13, 1), (4, 14, 2), (4, 22, 3),  # every further piece is eight steps
        (6, 7, 0), (6, 8, 1),
        (2, 4, 0), (2, 5, 1),  # food is picked up at the end of a round, so this one waits
    ],
)  # fmt: skip
def test_a_lone_walker_brings_what_the_way_allows(column: int, rounds: int, pieces: int) -> None:
    most = deliveries(CORRIDOR, rounds)
    assert most[1, column] == pieces
    assert not most[3].any()  # walled off


def test_one_who_touches_both_sites_delivers_every_round() -> None:
    assert deliveries(["WWWWW", "WF.NW", "WWWWW"], 5)[1, 2] == 5


def test_the_bound_of_a_case_sums_over_its_agents() -> None:
    played = case("foraging", 16, rounds=100)
    world = SwarmBench().open(played).scene.world
    most = deliveries(world.terrain, 100)
    assert walked(played) == sum(most[cell] for cell in world.agents) > 0
    assert walked(case("foraging", 16, rounds=1)) == 0


@pytest.mark.parametrize("seed", [10_000, 10_003])
@pytest.mark.parametrize("n", [8, 16])
def test_no_communication_brings_more_than_shortest_paths_allow(n: int, seed: int) -> None:
    assert 0 < foraged(n, seed, "everyone") <= walked(case("foraging", n, seed))


def test_foraging_rows_end_with_what_the_paths_allow(few_reaches: list[str]) -> None:
    cases = [case("foraging", 8, seed) for seed in (10_000, 10_001)]
    rows = sharing_table(("foraging",), (8,), range(10_000, 10_002))
    assert [row.reach for row in rows] == [*few_reaches, WALKED]
    assert rows[-1].score == sum(map(walked, cases)) / 2


@pytest.mark.parametrize("n", [8, 32])
def test_a_shared_clock_is_in_unison_in_every_round(n: int) -> None:
    """The first round turns all lights on, and every round after it turns all of them."""
    assert counted(case("synchronization", n, rounds=21)) == 21
    with pytest.raises(ConfigError, match="use synchronization"):
        counted(case("pursuit"))


def test_other_tasks_have_no_paths_to_count() -> None:
    with pytest.raises(ConfigError, match="use foraging"):
        walked(case("pursuit"))


@pytest.mark.parametrize(
    ("task", "told", "hint"),
    [("synchronization", "contacts", "flocking or transport"), ("pursuit", "contact", "contacts")],
)
def test_mistakes_name_the_choices(task: str, told: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        play_sharing(case(task, rounds=2), told)
