"""Symmetry of an instance once priorities are removed (Corollary 1; spec section 9).

In the paper, a setting is obstructed if no automorphism orbit of the attributed graph is a single
node, so that no deterministic anonymous law can single out a leader. A coarser criterion is added,
because the paper's 10 of 18 cannot come from automorphisms on these families: no single node has
the maximum degree. Invariant: every result depends only on the isomorphism class, not on names or
node order.
"""

from __future__ import annotations

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
    """The symmetry of one graph."""

    orbits: tuple[tuple[int, ...], ...]
    """Automorphism orbits, each sorted, by smallest member."""
    unique_max_degree: bool

    @property
    def obstructed(self) -> bool:
        """Whether no node is alone in its orbit."""
        return all(len(orbit) > 1 for orbit in self.orbits)


def diagnose(graph: AgentGraph, attributes: Attributes = None) -> Symmetry:
    """Return the symmetry of a graph."""
    return Symmetry(orbits(graph, attributes), graph.degrees.count(graph.max_degree) == 1)


def orbits(graph: AgentGraph, attributes: Attributes = None) -> tuple[tuple[int, ...], ...]:
    """Return the automorphism orbits.

    Only nodes of one view class can be equivalent; two nodes are equivalent iff marking either one
    gives isomorphic coloured graphs. Equivalence is transitive, so the members of a class are
    compared with one representative of each orbit found so far.
    """
    from networkx.algorithms.isomorphism import GraphMatcher, categorical_node_match

    colours = view_classes(graph, attributes)
    alike = categorical_node_match("colour", -1)
    found: list[list[int]] = []
    for v in range(graph.n):
        marked = _marked(graph, colours, v)
        for orbit in (o for o in found if colours[o[0]] == colours[v]):
            if GraphMatcher(_marked(graph, colours, orbit[0]), marked, alike).is_isomorphic():
                orbit.append(v)
                break
        else:
            found.append([v])
    return tuple(tuple(orbit) for orbit in found)


def view_classes(graph: AgentGraph, attributes: Attributes = None) -> list[int]:
    """Return the class of every node's anonymous view, refined until nothing changes.

    The initial class is a node's attribute and degree; each refinement adds the multiset of the
    neighbours' classes.
    """
    start = attributes if attributes is not None else [0] * graph.n
    colours = _number([(start[v], graph.degrees[v]) for v in range(graph.n)])
    while True:
        refined = _number(
            [
                (colours[v], tuple(sorted(colours[u] for u in graph.adjacency[v])))
                for v in range(graph.n)
            ]
        )
        if len(set(refined)) == len(set(colours)):
            return colours
        colours = refined


def _number(rows: Sequence[Hashable]) -> list[int]:
    """Replace equal rows by equal small numbers, in an order that ignores node labels."""
    ranks = {row: rank for rank, row in enumerate(sorted(set(rows), key=repr))}
    return [ranks[row] for row in rows]


def _marked(graph: AgentGraph, colours: list[int], node: int) -> Graph[int]:
    """Return the coloured graph in which one node has a unique colour."""
    import networkx as nx

    marked: Graph[int] = nx.Graph(list(graph.edges))
    marked.add_nodes_from((v, {"colour": colours[v]}) for v in range(graph.n))
    marked.nodes[node]["colour"] = graph.n
    return marked
