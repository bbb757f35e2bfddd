"""Symmetry: recorded orbits, invariance, and attributes that break it."""

import json

import pytest

from tests.substrates.golden import ALL, GOLDEN, recorded_graphs
from waggle.substrates.agentsnet.graphs import AgentGraph, benchmark_graph, from_edges
from waggle.substrates.agentsnet.symmetry import diagnose, orbits, view_classes


def test_recorded_diagnostics_are_reproduced() -> None:
    graphs = recorded_graphs()
    recorded = json.loads((GOLDEN / "agentsnet" / "symmetry.json").read_text())
    assert len(recorded) == (27 if ALL else 19)
    for row in recorded:
        ours = diagnose(graphs[row["id"]])
        assert sorted(map(len, ours.orbits)) == sorted(row["orbit_sizes"])
        assert ours.obstructed is row["symmetry_obstructed"]
        assert ours.unique_max_degree is row["unique_max_degree"]


def test_counts_over_the_eighteen_public_graphs() -> None:
    found = [diagnose(g) for g in recorded_graphs().values() if g.n in (8, 16)]
    assert sum(s.obstructed for s in found) == 0
    assert sum(not s.unique_max_degree for s in found) == 6
    assert sum(any(len(orbit) > 1 for orbit in s.orbits) for s in found) == 6


def ring(n: int) -> AgentGraph:
    return from_edges("ring", [f"v{i}" for i in range(n)], [(i, (i + 1) % n) for i in range(n)])


def test_a_ring_is_one_orbit_and_an_attribute_breaks_it() -> None:
    assert orbits(ring(6)) == (tuple(range(6)),)
    assert diagnose(ring(6)).obstructed
    assert orbits(ring(6), [1, 0, 0, 0, 0, 0]) == ((0,), (1, 5), (2, 4), (3,))


def test_views_alike_need_not_be_one_orbit() -> None:
    two_triangles_and_hexagon = from_edges(
        "regular",
        [f"v{i}" for i in range(12)],
        [
            (0, 1),
            (1, 2),
            (0, 2),
            (3, 4),
            (4, 5),
            (3, 5),
            *[(6 + i, 6 + (i + 1) % 6) for i in range(6)],
        ],
    )
    result = diagnose(two_triangles_and_hexagon)
    assert len(set(view_classes(two_triangles_and_hexagon))) == 1
    assert sorted(map(len, result.orbits)) == [6, 6]


@pytest.mark.parametrize("family", ["ws", "ba", "dt"])
def test_orbits_move_with_a_relabelling(family: str) -> None:
    graph = benchmark_graph(family, 8, 2)
    turn = [(3 * v + 1) % 8 for v in range(8)]
    names = [""] * 8
    for v in range(8):
        names[turn[v]] = graph.names[v]
    moved = from_edges("moved", names, [(turn[u], turn[v]) for u, v in graph.edges])
    expected = {frozenset(turn[v] for v in orbit) for orbit in orbits(graph)}
    assert {frozenset(orbit) for orbit in orbits(moved)} == expected
