"""Reference protocols: the table of the anchors, and that they are protocols."""

from typing import Any

import pytest

from tests.substrates.golden import recorded_graphs
from waggle.baselines.graph_protocols import (
    PROTOCOLS,
    draw_priorities,
    measure,
    reference_table,
    run_protocol,
)
from waggle.substrates.agentsnet.graphs import benchmark_graph, benchmark_graphs

FLOOD = next(program for label, program, _ in PROTOCOLS if label == "min-priority flood")

# (strict 8, strict 16, soft, messages per agent), 100 draws on the 18 public graphs.
ANCHORS = {
    ("consensus", "everyone answers 0"): (1.00, 1.00, 1.00, 0),
    ("consensus", "min-priority flood"): (1.00, 1.00, 1.00, 9.2),
    ("leader_election", "min-priority flood"): (1.00, 1.00, 1.00, 9.2),
    ("coloring", "priority greedy"): (0.96, 0.88, 0.997, 7.1),
    ("coloring", "random colour with retreat"): (1.00, 1.00, 1.00, 21.4),
    ("coloring", "no comm: random"): (0.08, 0.01, 0.86, 0),
    ("matching", "dominant edge handshake"): (0.77, 0.96, 0.96, 14.7),
    ("matching", "no comm: random"): (0, 0, 0.25, 0),
    ("vertex_cover", "complement of priority MIS"): (1.00, 0.99, 1.00, 7.7),
    ("vertex_cover", "endpoints of maximal matching"): (0.10, 0.01, 0.55, 14.7),
    ("vertex_cover", "all Yes"): (0, 0, 0, 0),
    ("coloring", "full gather and greedy"): (1.00, 1.00, 1.00, 17.7),
    ("matching", "full gather and greedy"): (1.00, 1.00, 1.00, 17.7),
    ("vertex_cover", "full gather and greedy"): (1.00, 1.00, 1.00, 17.7),
}


@pytest.mark.parametrize(
    ("draws", "near"), [(10, 0.08), pytest.param(100, 0.03, marks=pytest.mark.slow)]
)
def test_the_table_of_anchors_is_reproduced(draws: int, near: float) -> None:
    graphs = [graph for graph in recorded_graphs().values() if graph.n in (8, 16)]
    rows = {(row.task, row.protocol): row for row in reference_table(graphs, draws)}
    for key, (eight, sixteen, soft, messages) in ANCHORS.items():
        row = rows.pop(key)
        assert row.strict[8] == pytest.approx(eight, abs=near), key
        assert row.strict[16] == pytest.approx(sixteen, abs=near), key
        assert row.soft == pytest.approx(soft, abs=near), key
        assert row.messages_per_agent == pytest.approx(messages, abs=2 * near), key
    # The lone leader is a pure sampling row: N (1/N) (1 - 1/N)^(N-1) is its exact value.
    (lone,) = rows.values()
    for n in (8, 16):
        assert lone.strict[n] == pytest.approx((1 - 1 / n) ** (n - 1), abs=near + 0.02)


def test_priorities_are_unique_and_named_by_the_draw() -> None:
    graph = benchmark_graph("ws", 100, 0)
    first, again, other = (draw_priorities(graph, d) for d in (0, 0, 1))
    assert first == again != other
    assert len(set(first)) == 100
    assert all(0 <= u < 1 << 64 for u in first)


def test_information_travels_one_hop_a_step() -> None:
    graph = benchmark_graph("ba", 50, 0)
    assert run_protocol(FLOOD, "leader_election", graph, 3).soft == 1.0


@pytest.mark.parametrize(("label", "program", "tasks"), PROTOCOLS)
def test_every_protocol_answers_legally_at_every_size(
    label: str, program: Any, tasks: tuple[str, ...]
) -> None:
    for task in tasks:
        row = measure(label, program, task, benchmark_graphs((4, 16)), draws=2)
        assert set(row.strict) == {4, 16}
