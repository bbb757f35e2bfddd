"""At N = 100 and 2D+1 rounds an episode of each task takes about a second of one idle core."""

import time

import pytest

from waggle import plugins
from waggle.core.protocols import Case
from waggle.runtime.sync import play
from waggle.substrates.agentsnet.graphs import benchmark_graph
from waggle.substrates.agentsnet.tasks import TASKS
from waggle.substrates.agentsnet.world import AgentsNetWorld

SECONDS = 10.0
"""A core that is slow, or shared with another program, takes several times as long."""


@pytest.mark.parametrize("task", TASKS)
def test_a_hundred_nodes_are_a_matter_of_seconds(task: str) -> None:
    graph, law = benchmark_graph("dt", 100, 0), plugins.get_law("heuristic")
    case = Case("agentsnet", task, 100, 10_000)
    made = AgentsNetWorld(case, graph, True)
    start = time.process_time()
    play(made, law, case)
    assert time.process_time() - start < SECONDS
    assert graph.diameter is not None
    assert made.rounds == 2 * graph.diameter + 2
