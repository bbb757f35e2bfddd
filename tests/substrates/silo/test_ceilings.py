"""Contact graphs, and the ceilings against the published bounds."""

from random import Random
from statistics import fmean

import pytest

from waggle.core.errors import ConfigError
from waggle.substrates.silo.cases import TASKS, contact_graph, episode_graph
from waggle.substrates.silo.ceilings import (
    SCHEDULES,
    Reach,
    ceiling_row,
    ceiling_rows,
    colour_edges,
    spread,
)

SEEDS = range(10_000, 10_002)


@pytest.mark.parametrize("n", [4, 6, 16, 64])
def test_graph_is_simple_cubic_and_connected(n: int) -> None:
    graph = contact_graph(n, Random(n))
    assert all(len(set(own)) == 3 and u not in own for u, own in enumerate(graph))
    assert all(u in graph[v] for u, own in enumerate(graph) for v in own)
    flooding = SCHEDULES["flooding"](graph, Random(0))
    assert spread(graph, flooding, n).complete == 1


@pytest.mark.parametrize("n", [2, 3, 5, 17])
def test_impossible_sizes_name_the_fix(n: int) -> None:
    with pytest.raises(ConfigError, match="even agent count of at least 4"):
        contact_graph(n, Random(0))


def test_graph_belongs_to_its_episode() -> None:
    assert episode_graph("I-01", 16, 1) == episode_graph("I-01", 16, 1)
    assert episode_graph("I-01", 16, 1) != episode_graph("I-01", 16, 2)


@pytest.mark.parametrize("n", [4, 16, 128])
def test_colouring_is_three_matchings_on_edges(n: int) -> None:
    graph = contact_graph(n, Random(1))
    mates = colour_edges(graph, Random(2))
    for matching in mates:
        assert all(matching[matching[u]] == u for u in range(n))
        assert all(matching[u] in graph[u] for u in range(n))
    assert all(len({matching[u] for matching in mates}) == 3 for u in range(n))


def test_bridge_graph_is_crossed_although_it_has_no_colouring() -> None:
    half = [(1, 2, 3), (0, 2, 3), (0, 1, 4), (0, 1, 4), (2, 3, 9)]
    other = [tuple(v + 5 for v in own) for own in half[:4]] + [(7, 8, 4)]
    graph = (*half, *other)
    mates = colour_edges(graph, Random(0))
    assert all({m[u] for m in mates} == set(own) for u, own in enumerate(graph))
    assert any(matching[matching[u]] != u for matching in mates for u in range(10))
    assert spread(graph, SCHEDULES["edge-coloured"](graph, Random(0)), 18).complete == 1


def mean_reach(schedule: str, n: int, rounds: int, graphs: int) -> tuple[float, float]:
    reaches: list[Reach] = []
    for seed in range(graphs):
        rng = Random(seed)
        graph = contact_graph(n, rng)
        reaches.append(spread(graph, SCHEDULES[schedule](graph, rng), rounds))
    return 100 * fmean(r.coverage for r in reaches), 100 * fmean(r.complete for r in reaches)


@pytest.mark.parametrize(
    ("schedule", "n", "rounds", "coverage", "complete"),
    [
        ("flooding", 32, 3, 56, 0),
        ("flooding", 64, 6, 96, 32),
        ("round-robin", 16, 9, None, 95),
        ("round-robin", 32, 9, 92, 37),
        ("round-robin", 64, 12, None, 46),
        ("random-port", 16, 9, None, 62),
        ("oracle-greedy", 32, 9, None, 82),
        ("oracle-greedy", 64, 12, None, 97),
        ("edge-coloured", 32, 9, 99.7, 97),
        pytest.param("edge-coloured", 64, 9, 95, 38, marks=pytest.mark.slow),
        pytest.param("edge-coloured", 128, 9, 77, 0, marks=pytest.mark.slow),
    ],
)
def test_reach_reproduces_table_c(
    schedule: str, n: int, rounds: int, coverage: float | None, complete: float
) -> None:
    covered, everything = mean_reach(schedule, n, rounds, {16: 200, 128: 40}.get(n, 80))
    assert everything == pytest.approx(complete, abs=3)
    assert coverage is None or covered == pytest.approx(coverage, abs=3)


@pytest.mark.parametrize(
    ("schedule", "n", "success"),
    [
        ("silent", 32, 8.7),
        ("flooding", 32, 100),
        ("round-robin", 16, 95.9),
        ("round-robin", 32, 50.9),
        ("oracle-greedy", 16, 99.4),
        ("oracle-greedy", 32, 86.0),
        ("edge-coloured", 32, 96.2),
    ],
)
def test_scores_reproduce_table_d(schedule: str, n: int, success: float) -> None:
    row = ceiling_row(schedule, tuple(TASKS), n, SEEDS, 9)
    assert 100 * row.success == pytest.approx(success, abs=3.5)
    assert row.cases == 60 and row.strict <= row.success


def test_most_of_a_perfect_schedule_is_lost_in_the_first_round_without_names() -> None:
    for n, perfect, blind in ((32, 97, 87), (64, 38, 8)):
        assert mean_reach("edge-coloured", n, 9, 40)[1] == pytest.approx(perfect, abs=4)
        assert mean_reach("blind-start", n, 9, 40)[1] == pytest.approx(blind, abs=4)


def test_rows_cover_sizes_and_schedules() -> None:
    rows = ceiling_rows([4, 8], [10_000], rounds=2, task_ids=["I-01"])
    assert [(row.n, row.schedule) for row in rows] == [(n, s) for n in (4, 8) for s in SCHEDULES]
    assert rows[0].by_level[1:] == (None, None)


def test_unknown_schedule_names_the_fix() -> None:
    with pytest.raises(ConfigError, match="round-robin"):
        ceiling_row("telepathy", ["I-01"], 4, [10_000], 3)
