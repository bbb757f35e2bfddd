"""Directed acyclic graphs over contacts, and their execution in synchronous rounds.

Graph methods run their nodes in topological order within one query. Here layer(v) is the longest
path from a source; v starts to send in round layer(v), then sends one frame per round, in turn over
its successors. When every node of an edge's path has run, later rounds continue with newer data. If
contacts move, the ends of an edge soon lose contact: the graph is then built again over the current
contacts as soon as its last layer has sent, each time as a new query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeAlias

from waggle.baselines.peers.organiser import NodeView, Opening, RoundPlan, Send, contact_graph

Edge: TypeAlias = tuple[int, int]
Contacts: TypeAlias = Mapping[int, Sequence[int]]
"""The contacts of every node, or the subset that it sends to, in drawn order."""


class Dag:
    """A graph built edge by edge; an edge that would close a cycle is refused."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self._place = {node: place for place, node in enumerate(nodes)}
        self._reach = [1 << place for place in range(len(nodes))]
        """For every node, a bit set of the nodes that it reaches, itself included."""
        self.successors: dict[int, list[int]] = {node: [] for node in nodes}

    def closes_cycle(self, edge: Edge) -> bool:
        """Return whether the head of an edge already reaches its tail."""
        tail, head = (self._place[node] for node in edge)
        return bool(self._reach[head] >> tail & 1)

    def add(self, edge: Edge) -> bool:
        """Add an edge unless it closes a cycle; return whether it was added."""
        if self.closes_cycle(edge):
            return False
        tail, head = (self._place[node] for node in edge)
        more = self._reach[head]
        for place, reach in enumerate(self._reach):
            if reach >> tail & 1:
                self._reach[place] = reach | more
        self.successors[edge[0]].append(edge[1])
        return True


class SampledGraph(NamedTuple):
    """A graph drawn from edge probabilities."""

    successors: Mapping[int, Sequence[int]]
    considered: Mapping[Edge, bool]
    """Edges that closed no cycle when they were considered, and whether each was taken."""


def draw(nodes: Sequence[int], chance: Mapping[Edge, float], rng: Random | None) -> SampledGraph:
    """Sample a graph edge by edge in shuffled order; without `rng`, take edges above one half.

    The latter are taken by decreasing probability, so the likelier edge of a cycle stays.
    """
    dag = Dag(nodes)
    considered: dict[Edge, bool] = {}
    edges = list(chance)
    if rng is not None:
        rng.shuffle(edges)
    else:
        edges = [e for e in sorted(edges, key=lambda e: -chance[e]) if chance[e] > 0.5]
    for edge in edges:
        if dag.closes_cycle(edge):
            continue
        considered[edge] = rng is None or rng.random() < chance[edge]
        if considered[edge]:
            dag.add(edge)
    return SampledGraph(dag.successors, considered)


def distances(contacts: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return the distance of every reachable node from the node that is listed first."""
    found = {next(iter(contacts)): 0}
    queue = list(found)
    for node in queue:
        for contact in contacts[node]:
            if contact in contacts and contact not in found:
                found[contact] = found[node] + 1
                queue.append(contact)
    return found


def layers(successors: Mapping[int, Iterable[int]]) -> dict[int, int]:
    """Return the length of the longest path from a source to every node."""
    incoming = dict.fromkeys(successors, 0)
    for heads in successors.values():
        for head in heads:
            incoming[head] += 1
    found = dict.fromkeys(successors, 0)
    free = [node for node, count in incoming.items() if not count]
    while free:
        node = free.pop()
        for head in successors[node]:
            found[head] = max(found[head], found[node] + 1)
            incoming[head] -= 1
            if not incoming[head]:
                free.append(head)
    return found


def gated(
    successors: Mapping[int, Sequence[int]], layer: Mapping[int, int], round: int
) -> list[Edge]:
    """Return the edges that carry a frame in one round: at most one for each node."""
    return [
        (node, heads[(round - layer[node]) % len(heads)])
        for node, heads in successors.items()
        if heads and round >= layer[node]
    ]


def routed(
    successors: Mapping[int, Sequence[int]],
    layer: Mapping[int, int],
    round: int,
    views: Mapping[int, NodeView],
) -> RoundPlan:
    """Send along the edges that are due and still join contacts."""
    due = gated(successors, layer, round)
    return RoundPlan(tuple(Send(u, v) for u, v in due if u in views and v in views[u].ports))


class Sweeps:
    """A graph under execution: built once, or again for every sweep if contacts move.

    Args:
        opening: the information that the designer got at the start.
        lay: chooses the successors of every node among its contacts, without a cycle.
    """

    def __init__(self, opening: Opening, lay: Callable[[Contacts], Contacts]) -> None:
        self._lay, self._moving = lay, opening.moving
        self._start(0, opening.contacts)

    def _start(self, round: int, contacts: Contacts) -> None:
        self._began = round
        self.successors = self._lay(contacts)
        self.layer = layers(self.successors)

    def plan(self, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        """Send along the edges that are due; if contacts move, start a new graph after the last."""
        if self._moving and round - self._began > max(self.layer.values(), default=0):
            self._start(round, contact_graph(views))
        return routed(self.successors, self.layer, round - self._began, views)
