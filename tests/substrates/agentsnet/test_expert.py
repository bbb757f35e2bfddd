"""The expert's rules: a ceiling near the reference protocols, admissible and equivariant."""

from collections.abc import Sequence
from functools import cache
from statistics import fmean

import pytest

from waggle import plugins
from waggle.core.protocols import Case
from waggle.runtime.sync import play
from waggle.substrates.agentsnet.graphs import AgentGraph, benchmark_graph, generate
from waggle.substrates.agentsnet.tasks import TASKS
from waggle.substrates.agentsnet.world import AgentsNetWorld
from waggle.testing.law import check_law


@cache
def graphs() -> list[AgentGraph]:
    """One graph of each family and size."""
    return [generate(family, n, 77) for n in (8, 16) for family in ("ws", "ba", "dt")]


def solved(
    task: str, priority: bool, on: Sequence[AgentGraph] | None = None, draws: int = 3
) -> float:
    scores = []
    for graph in on or graphs():
        for draw in range(draws):
            case = Case("agentsnet", task, graph.n, 10_100 + draw)
            made = AgentsNetWorld(case, graph, priority)
            footer = play(made, plugins.get_law("expert"), case)
            assert footer.counters["stage.first"] == footer.counters["updates"]
            scores.append(footer.scores["strict"])
    return fmean(scores)


@pytest.mark.parametrize(
    ("task", "least"),
    [
        ("coloring", 0.94),
        ("consensus", 1.0),
        ("leader_election", 1.0),
        ("matching", 0.88),
        ("vertex_cover", 0.94),
    ],
)
def test_priorities_suffice_to_solve_every_task_locally(task: str, least: float) -> None:
    assert solved(task, True) >= least


def test_without_priority_leader_election_suffers_most() -> None:
    without = {task: solved(task, False) for task in ("coloring", "leader_election")}
    assert without["coloring"] >= 0.9
    assert without["leader_election"] <= 0.7


@pytest.mark.parametrize("task", ["coloring", "leader_election", "matching", "vertex_cover"])
def test_it_scales_to_a_hundred_nodes(task: str) -> None:
    assert solved(task, True, [benchmark_graph("dt", 100, 0)], draws=1) == 1.0


@pytest.mark.parametrize("task", TASKS)
def test_the_expert_conforms_as_a_law(task: str) -> None:
    # Its relabelled trajectories are in tests/testing.
    check_law("expert", "agentsnet", task, views=60, trajectories=False).require()
