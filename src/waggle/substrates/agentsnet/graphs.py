"""AgentsNet graphs: one frozen value and its measures (spec agentsnet.md, sections 1 and 8).

Invariant: an `AgentGraph` is simple, its names are unique, and its adjacency lists hold exactly
its edges, in the order a matching agent is offered its neighbours. Whether it is connected is a
measure, not a precondition, because evaluator vectors use graphs that are not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from waggle.core.errors import ConfigError

FAMILIES: dict[str, str] = {"ws": "SmallWorld", "ba": "ScaleFree", "dt": "Delaunay"}
"""Family tag of the release and its name in the paper."""

MAX_NODES = 1000
"""Largest graph a file may hold; the benchmark ends at 100."""

PROVENANCES: dict[str, str] = {
    "released_verified": "equals a released instance, edges and names",
    "released_reconstructed": "replayed from the released instances' random stream",
    "official_generator": "the published generator, as released for this size",
    "official_generator_substitute": "the published generator; the released one cannot be rebuilt",
    "file": "read from a file that does not say",
    "dataset": "a row of the downloaded AgentsNet parquet file",
}
"""Where a graph comes from; printed with every result."""


class GraphError(ConfigError):
    """A graph, or a file of graphs, that cannot be used as given."""


@dataclass(frozen=True)
class AgentGraph:
    """One undirected simple graph with a unique first name per node."""

    id: str
    names: tuple[str, ...]
    adjacency: tuple[tuple[int, ...], ...]
    """Neighbours of each node, in the order its matching answers list them."""
    family: str = ""
    index: int = 0
    provenance: str = field(default="file", compare=False)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.names)

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Every edge once, smaller node first, sorted."""
        return tuple((u, v) for u in range(self.n) for v in sorted(self.adjacency[u]) if u < v)

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """Degree of each node."""
        return tuple(len(neighbours) for neighbours in self.adjacency)

    @property
    def max_degree(self) -> int:
        """Largest degree (0 without edges)."""
        return max(self.degrees, default=0)

    @cached_property
    def diameter(self) -> int | None:
        """Longest shortest path, or None where the graph is not connected."""
        reaches = [_eccentricity(self.adjacency, v) for v in range(self.n)]
        return None if None in reaches else max(r for r in reaches if r is not None)


def from_edges(
    id: str,
    names: Sequence[str],
    edges: Iterable[tuple[int, int]],
    *,
    adjacency: Sequence[Sequence[int]] | None = None,
    family: str = "",
    index: int = 0,
    provenance: str = "file",
) -> AgentGraph:
    """Build a checked graph; adjacency order is edge order unless given.

    Raises:
        GraphError: for a loop, a repeated edge, an unknown node, repeated names, or an adjacency
            that does not match the edges.
    """
    n = len(names)
    if not 1 <= n <= MAX_NODES:
        raise GraphError(f"graph {id!r} has {n} nodes; use 1 to {MAX_NODES}")
    if len(set(names)) != n:
        raise GraphError(f"graph {id!r} repeats a name; give every node its own")
    order = _adjacency_of(id, n, edges)
    if adjacency is not None:
        if [sorted(row) for row in adjacency] != [sorted(row) for row in order]:
            raise GraphError(f"graph {id!r}: adjacency_order does not match edges; drop or fix it")
        order = [list(row) for row in adjacency]
    rows = tuple(tuple(row) for row in order)
    return AgentGraph(id, tuple(names), rows, family, index, provenance)


def _adjacency_of(id: str, n: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return neighbour lists in order of insertion, refusing loops, repeats and unknown nodes."""
    order: list[list[int]] = [[] for _ in range(n)]
    seen: set[tuple[int, int]] = set()
    for u, v in edges:
        if not (0 <= u < n and 0 <= v < n):
            raise GraphError(f"graph {id!r}: edge [{u}, {v}] names no node; ids are 0 to {n - 1}")
        key = (min(u, v), max(u, v))
        if u == v or key in seen:
            raise GraphError(f"graph {id!r}: edge [{u}, {v}] is a loop or repeated; remove it")
        seen.add(key)
        order[u].append(v)
        order[v].append(u)
    return order


def _eccentricity(adjacency: Sequence[Sequence[int]], source: int) -> int | None:
    """Return the distance to the farthest node, or None if some node is out of reach."""
    distance = {source: 0}
    queue = deque([source])
    while queue:
        u = queue.popleft()
        for v in adjacency[u]:
            if v not in distance:
                distance[v] = distance[u] + 1
                queue.append(v)
    return max(distance.values()) if len(distance) == len(adjacency) else None
