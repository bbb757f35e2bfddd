"""The published AgentsNet generator and the replay of its release (spec sections 1 and 8).

Sizes 20 to 100 are the current generator, master seed 42, three samples per size and family.
Sizes 4, 8 and 16 were released by an older one: small worlds as today, scale-free graphs drawn
from the same stream as the names, Delaunay points unseeded. The replay therefore rebuilds every
released ws and ba graph and all names, but the Delaunay edges of those sizes are a substitute
from the current generator; `provenance` says so. Every other size is the current generator run
for that size alone. Invariant: (family, n, index) names one graph for ever.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from waggle.substrates.agentsnet.graphs import FAMILIES, AgentGraph, GraphError, from_edges
from waggle.substrates.agentsnet.names import POOL

if TYPE_CHECKING:
    from networkx import Graph

MASTER_SEED = 42
"""Seed of the release; the run scripts' 1729 seeds the runner only."""

SMALL_SIZES = (4, 8, 16)
"""Benchmark sizes, released by the older generator."""

LARGE_SIZES = tuple(range(20, 101, 10))
"""Sizes of the scaling study."""

SAMPLES = 3
"""Graphs per size and family."""

_RELEASED_ORDER = {"ws": (1, 0, 2), "ba": (0, 1, 2), "dt": (0, 1, 2)}
"""Which draw of the older generator became index 0, 1, 2 (known for 0, assumed beyond)."""


def benchmark_graph(family: str, n: int, index: int) -> AgentGraph:
    """Return graph `index` (0 to 2) of a family at any size from 4 to 100.

    Raises:
        GraphError: naming the legal families, sizes and indices.
    """
    if family not in FAMILIES:
        raise GraphError(f"graph family {family!r} is unknown; use one of {', '.join(FAMILIES)}")
    if not 4 <= n <= 100 or not 0 <= index < SAMPLES:
        raise GraphError(f"no graph {family}_{n}_{index}; use n 4 to 100 and index 0 to 2")
    return _catalogue(n)[family, n, index]


def benchmark_graphs(sizes: tuple[int, ...] = (8, 16)) -> list[AgentGraph]:
    """Return the graphs of the given sizes, family by family: 18 for the default."""
    return [benchmark_graph(f, n, i) for f in FAMILIES for n in sizes for i in range(SAMPLES)]


def generate(family: str, n: int, seed: int) -> AgentGraph:
    """Return one unnamed-index graph of the published generator with the first n pool names."""
    graph = _draw(family, n, seed)
    return _freeze(graph, family, 0, list(POOL[:n]), "official_generator")


def _catalogue(n: int) -> dict[tuple[str, int, int], AgentGraph]:
    """Return the release a size belongs to, or the size's own run of the generator."""
    if n in SMALL_SIZES:
        return _small_release()
    return _generator_run(LARGE_SIZES if n in LARGE_SIZES else (n,))


@cache
def _generator_run(sizes: tuple[int, ...]) -> dict[tuple[str, int, int], AgentGraph]:
    """Run the current generator: all sizes share one list of graph seeds and one name stream."""
    stream, seeds = _stream()
    released = {}
    for family, n, index in _cells(sizes):
        graph = _draw(family, n, seeds[index])
        names = stream.sample(POOL, n)
        released[family, n, index] = _freeze(graph, family, index, names, "official_generator")
    return released


@cache
def _small_release() -> dict[tuple[str, int, int], AgentGraph]:
    """Replay the older generator for sizes 4, 8 and 16."""
    stream, seeds = _stream()
    released = {}
    for family, n, draw in _cells(SMALL_SIZES):
        graph = _draw(family, n, stream if family == "ba" else seeds[draw])
        names = stream.sample(POOL, n)
        index = _RELEASED_ORDER[family].index(draw)
        source = _small_provenance(family, index)
        released[family, n, index] = _freeze(graph, family, index, names, source)
    return released


def _small_provenance(family: str, index: int) -> str:
    """Return what is known about a replayed graph: index 0 was compared with published runs."""
    if family == "dt":
        return "official_generator_substitute"
    return "released_verified" if index == 0 else "released_reconstructed"


def _stream() -> tuple[random.Random, list[int]]:
    """Return the release's python stream and the graph seeds it starts with."""
    stream = random.Random(MASTER_SEED)
    return stream, [stream.randint(1, 10000) for _ in range(SAMPLES)]


def _cells(sizes: tuple[int, ...]) -> Iterator[tuple[str, int, int]]:
    """Yield family > size > sample, the order in which the release consumed its stream."""
    for family in FAMILIES:
        for n in sizes:
            for sample in range(SAMPLES):
                yield family, n, sample


def _draw(family: str, n: int, seed: int | random.Random) -> Graph[int]:
    """Draw one graph of a family (small world k=4 p=0.4; scale-free m=2; Delaunay)."""
    import networkx as nx

    if isinstance(seed, int) and family == "dt":
        return _delaunay(n, seed)
    graph: Graph[int] = (
        nx.connected_watts_strogatz_graph(n, 4, 0.4, seed=seed)
        if family == "ws"
        else nx.barabasi_albert_graph(n, 2, seed=seed)
    )
    return graph


def _delaunay(n: int, seed: int) -> Graph[int]:
    """Triangulate n uniform points of the unit square; one edge per triangle side."""
    import networkx as nx
    from numpy.random import RandomState
    from scipy.spatial import Delaunay

    graph: Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    # The release used numpy's legacy generator, so its graphs need it too.
    points = RandomState(seed).rand(n, 2)
    for triangle in Delaunay(points).simplices:
        a, b, c = (int(corner) for corner in triangle)
        graph.add_edges_from([(a, b), (b, c), (c, a)])
    return graph


def _freeze(
    graph: Graph[int], family: str, index: int, names: list[str], provenance: str
) -> AgentGraph:
    """Freeze a drawn graph; re-inserting its edges in order gives the release's neighbour order."""
    n = graph.number_of_nodes()
    name = f"{family}_{n}_{index}"
    edges = list(graph.edges())
    return from_edges(name, names, edges, family=family, index=index, provenance=provenance)
