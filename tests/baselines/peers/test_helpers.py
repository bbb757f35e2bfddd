"""The encoder, graphs without cycles, and the gated schedule."""

from __future__ import annotations

from math import fsum, isclose
from random import Random

import pytest

from waggle.baselines.peers import encoder
from waggle.baselines.peers.dag import Dag, gated, layers
from waggle.baselines.peers.encoder import WIDTH, encode, levels, similarity, toward


def test_vectors_have_length_one_and_depend_on_words_alone() -> None:
    vector = encode(("silo", "level 1"))
    assert len(vector) == WIDTH
    assert isclose(similarity(vector, vector), 1.0)
    assert vector == encode(("level 1", "silo"))
    assert similarity(vector, encode(("silo",))) > similarity(vector, encode(("beacon",)))


def test_a_cosine_does_not_depend_on_how_a_python_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "sum", fsum, raising=False)  # as exact as Python 3.12
    assert similarity((0.1,) * 10, (1.0,) * 10) == 0.1 * 10 - 2**-53


def test_spans_of_levels_are_alike_where_they_overlap() -> None:
    need = levels("silo", 2, 4)
    assert similarity(need, levels("silo", 0, 4)) > similarity(need, levels("silo", 0, 2))


def test_moving_toward_a_goal_comes_nearer_to_it() -> None:
    start, goal = encode(("a",)), encode(("b",))
    assert similarity(toward(start, goal, 0.2), goal) > similarity(start, goal)


def test_a_dag_refuses_what_closes_a_cycle_and_nothing_else() -> None:
    rng = Random(1)
    nodes = list(range(12))
    dag = Dag(nodes)
    for _ in range(200):
        edge = rng.choice(nodes), rng.choice(nodes)
        reaches = _reaches(dag.successors, edge[1], edge[0])
        assert dag.add(edge) is not reaches
    order = layers(dag.successors)
    assert all(order[u] < order[v] for u, heads in dag.successors.items() for v in heads)


def _reaches(successors: dict[int, list[int]], start: int, goal: int) -> bool:
    seen, queue = {start}, [start]
    for node in queue:
        queue += [v for v in successors[node] if v not in seen and not seen.add(v)]  # type: ignore[func-returns-value]
    return goal in seen


def test_a_node_sends_from_its_layer_on_in_turn_over_its_successors() -> None:
    successors = {0: [1, 2], 1: [2], 2: []}
    layer = layers(successors)
    assert layer == {0: 0, 1: 1, 2: 2}
    assert [gated(successors, layer, t) for t in range(3)] == [
        [(0, 1)],
        [(0, 2), (1, 2)],
        [(0, 1), (1, 2)],
    ]
