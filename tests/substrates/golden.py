"""Recorded vectors: a sample in tests/golden, and all of them where ../shared/golden is there."""

from pathlib import Path

from waggle.substrates.agentsnet.graph_files import graph_paths, load_graph
from waggle.substrates.agentsnet.graphs import AgentGraph

SAMPLE = Path(__file__).parents[1] / "golden"
SHARED = Path(__file__).parents[3] / "shared" / "golden"
ALL = SHARED.is_dir()
"""Whether all recorded vectors are there, not the sample alone."""
GOLDEN = SHARED if ALL else SAMPLE
GRAPHS = GOLDEN / "agentsnet" / "graphs"


def recorded_graphs() -> dict[str, AgentGraph]:
    """Return the recorded AgentsNet graphs by id."""
    graphs = [load_graph(path).graph for path in graph_paths(GRAPHS)]
    return {graph.id: graph for graph in graphs}
