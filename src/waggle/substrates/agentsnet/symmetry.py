"""Symmetry of an instance once priorities are removed (Corollary 1; spec section 9).

The paper's notion: a setting is obstructed if no automorphism orbit of the attributed graph is a
single node, so that no deterministic anonymous law can tell a leader apart. Three coarser notions
stand beside it, because the paper's 10 of 18 cannot come from automorphisms on these families.
Invariant: every result is a function of the isomorphism class; names and node order do not enter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waggle.substrates.agentsnet.graphs import AgentGraph

if TYPE_CHECKING:
    from networkx import Graph

Attributes = Sequence[Hashable] | None
"""One initial attribute per node (None: all alike)."""


@dataclass(frozen=True)
class Symmetry:
    """The diagnostics of one graph."""

    orbits: tuple[tuple[int, ...], ...]
    """Automorphism orbits, each sorted, by smallest member."""
    singleton_degree_classes: int
    unique_max_degree: bool
    unique_min_degree: bool
    singleton_views: tuple[int, ...]
    """Nodes with a unique anonymous view, at depth 1, 2, … until nothing changes."""

    @property
    def obstructed(self) -> bool:
        """Whether no node is alone in its orbit."""
        return all(len(orbit) > 1 for orbit in self.orbits)

    @property
    def first_unique_view(self) -> int | None:
        """Smallest depth at which some node has a unique anonymous view, or None."""
        depths = (d for d, count in enumerate(self.singleton_views, start=1) if count)
        return next(depths, None)


def diagnose(graph: AgentGraph, attributes: Attributes = None) -> Symmetry:
    """Return all symmetry diagnostics of a graph."""
    degrees = Counter(graph.degrees)
    return Symmetry(
        orbits=orbits(graph, attributes),
        singleton_degree_classes=sum(count == 1 for count in degrees.values()),
        unique_max_degree=degrees[max(degrees)] == 1,
        unique_min_degree=degrees[min(degrees)] == 1,
        singleton_views=tuple(
            sum(count == 1 for count in Counter(colours).values())
            for colours in view_refinement(graph, attributes)
        ),
    )


def view_refinement(graph: AgentGraph, attributes: Attributes = None) -> list[list[int]]:
    """Return anonymous-view classes at depth 1, 2, … up to the stable one.

    Depth k is what a node can know after k exchanges without names: depth 1 is its attribute and
    degree, each further depth adds the multiset of the neighbours' classes.
    """
    start = attributes if attributes is not None else [0] * graph.n
    colours = _number([(start[v], graph.degrees[v]) for v in range(graph.n)])
    depths = [colours]
    while True:
        rows = [(colours[v], _multiset(colours, graph.adjacency[v])) for v in range(graph.n)]
        refined = _number(rows)
        if len(set(refined)) == len(set(colours)):
            return depths
        depths.append(refined)
        colours = refined


def orbits(graph: AgentGraph, attributes: Attributes = None) -> tuple[tuple[int, ...], ...]:
    """Return the automorphism orbits.

    Only nodes of one stable view class can be equivalent; two are iff the graph with either one
    marked is the same coloured graph. Equivalence is transitive, so the members of a class are
    compared with one representative of each orbit found so far.
    """
    from networkx.algorithms.isomorphism import GraphMatcher, categorical_node_match

    colours = view_refinement(graph, attributes)[-1]
    alike = categorical_node_match("colour", -1)
    found: list[list[int]] = []
    for members in _groups(colours):
        local: list[list[int]] = []
        for v in members:
            marked = _marked(graph, colours, v)
            for orbit in local:
                if GraphMatcher(_marked(graph, colours, orbit[0]), marked, alike).is_isomorphic():
                    orbit.append(v)
                    break
            else:
                local.append([v])
        found += local
    return tuple(sorted(tuple(orbit) for orbit in found))


def _marked(graph: AgentGraph, colours: list[int], node: int) -> Graph[int]:
    """Return the coloured graph in which one node has a colour of its own."""
    import networkx as nx

    marked: Graph[int] = nx.Graph(list(graph.edges))
    marked.add_nodes_from((v, {"colour": colours[v]}) for v in range(graph.n))
    marked.nodes[node]["colour"] = graph.n
    return marked


def _groups(labels: Sequence[int]) -> list[list[int]]:
    """Return positions by label, in order of first appearance."""
    groups: dict[int, list[int]] = {}
    for position, label in enumerate(labels):
        groups.setdefault(label, []).append(position)
    return list(groups.values())


def _multiset(colours: list[int], nodes: Sequence[int]) -> tuple[int, ...]:
    """Return the sorted colours of some nodes."""
    return tuple(sorted(colours[v] for v in nodes))


def _number(rows: Sequence[Hashable]) -> list[int]:
    """Replace equal rows by equal small numbers, in an order that ignores node labels."""
    ranks = {row: rank for rank, row in enumerate(sorted(set(rows), key=repr))}
    return [ranks[row] for row in rows]
