"""Tasks: budgets, legal answers, and the corners of the official evaluators."""

from typing import Any

import pytest

from waggle.substrates.agentsnet.graphs import GraphError, benchmark_graph, from_edges
from waggle.substrates.agentsnet.tasks import (
    TASKS,
    Answers,
    evaluate,
    node_share,
    round_budget,
    soft_score,
)

PATH = from_edges("path", ["James", "Mary", "Robert"], [(0, 1), (1, 2)])


@pytest.mark.parametrize(("n", "rounds"), [(4, 4), (8, 5), (16, 6)])
def test_local_tasks_have_small_budgets(n: int, rounds: int) -> None:
    graph = benchmark_graph("ws", n, 0)
    assert {round_budget(t, graph) for t in ("coloring", "matching", "vertex_cover")} == {rounds}
    assert graph.diameter is not None
    assert round_budget("consensus", graph) == 2 * graph.diameter + 1


def test_every_task_beyond_sixteen_nodes_has_twice_the_diameter_plus_one() -> None:
    graph = benchmark_graph("dt", 30, 0)
    assert graph.diameter is not None
    assert {round_budget(task, graph) for task in TASKS} == {2 * graph.diameter + 1}


@pytest.mark.parametrize(
    ("task", "answers", "soft"),
    [
        ("coloring", ["Group 1", "Group 2", "Group 1"], 1.0),
        ("coloring", ["Group 1", "Group 1", "Group 2"], 0.5),
        ("coloring", ["Group 1", "Group 2", None], 0.0),
        ("coloring", ["Group 1", "Group 4", "Group 1"], 0.0),
        ("consensus", ["1", "1", "1"], 1.0),
        ("consensus", ["1", "1", None], 0.0),
        ("consensus", ["2", "2", "2"], 0.0),
        ("leader_election", ["Yes", "No", "No"], 1.0),
        ("leader_election", ["Yes", "No", None], 0.0),
        ("matching", ["Mary", "James", "None"], 1.0),
        ("matching", ["None", "None", None], 0.0),
        ("matching", ["None", None, "None"], pytest.approx(2 / 3)),
        ("vertex_cover", ["No", "Yes", "No"], 1.0),
        ("vertex_cover", ["No", "Yes", None], 1.0),
        ("vertex_cover", ["Yes", "Yes", "Yes"], 0.0),
        ("vertex_cover", ["Yes", "No", "No"], 0.5),
        ("vertex_cover", ["Yes", "Yes", "No"], 0.5),
    ],
)
def test_official_scores(task: str, answers: list[str | None], soft: Any) -> None:
    assert evaluate(task, PATH, answers) == soft


def test_what_the_official_evaluator_cannot_score_is_unsolved() -> None:
    with pytest.raises(ZeroDivisionError):
        soft_score("vertex_cover", PATH, ["No"] * 3)
    assert evaluate("vertex_cover", PATH, ["No"] * 3) == 0.0
    lonely = from_edges("lonely", ["James", "Mary"], [])
    assert evaluate("coloring", lonely, ["Group 1", "Group 1"]) == 0.0


def test_unknown_task_and_wrong_length_name_the_fix() -> None:
    with pytest.raises(GraphError, match="did you mean 'coloring'"):
        round_budget("colouring", PATH)
    with pytest.raises(GraphError, match="one per node"):
        evaluate("consensus", PATH, ["1"])
    with pytest.raises(GraphError, match="not connected"):
        round_budget("consensus", from_edges("x", ["a", "b"], []))


@pytest.mark.parametrize(
    ("task", "answers", "right"),
    [
        # The first covers nothing that the second does not.
        ("vertex_cover", ["Yes", "Yes", "No"], [0, 1, 1]),
        ("vertex_cover", ["No", "Yes", "No"], [1, 1, 1]),
        ("leader_election", ["Yes", "No", "Yes"], [0, 1, 0]),
        ("leader_election", ["No", "No", "No"], [0, 0, 0]),
        ("leader_election", ["No", "Yes", "No"], [1, 1, 1]),
        ("leader_election", ["No", "Yes", None], [1, 1, 0]),
    ],
)
def test_a_share_tells_who_is_to_blame(task: str, answers: Answers, right: list[int]) -> None:
    parts = [node_share(task, PATH, answers, v) or 0.0 for v in range(3)]
    assert [part - parts[0] for part in parts] == [part - right[0] for part in right]
    assert sum(parts) / 3 == pytest.approx(evaluate(task, PATH, answers))


@pytest.mark.parametrize(
    ("task", "answers", "ranks", "blamed"),
    [
        ("coloring", ["Group 1", "Group 1", "Group 2"], [1, 2, 3], [1]),
        ("coloring", ["Group 1", "Group 1", "Group 2"], [2, 1, 3], [0]),
        ("vertex_cover", ["No", "No", "Yes"], [1, 2, 3], [1]),
        ("vertex_cover", ["No", "No", "Yes"], [2, 1, 3], [0]),
        ("vertex_cover", ["Yes", "Yes", "Yes"], [2, 1, 3], [1]),
    ],
)
def test_with_priorities_one_of_several_is_to_blame(
    task: str, answers: Answers, ranks: list[int], blamed: list[int]
) -> None:
    parts = [node_share(task, PATH, answers, v, ranks) or 0.0 for v in range(3)]
    assert sum(parts) / 3 == pytest.approx(evaluate(task, PATH, answers))
    if task == "coloring":  # a node has as many parts as links
        parts = [part / len(PATH.adjacency[v]) for v, part in enumerate(parts)]
    assert [v for v, part in enumerate(parts) if part < max(parts)] == blamed
