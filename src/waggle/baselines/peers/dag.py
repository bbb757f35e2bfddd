"""Directed acyclic graphs over contacts, and how one is executed in synchronous rounds.

Graph methods run their nodes in topological order within one query. Here layer(v) is the longest
path from a source; v starts to send in round layer(v), then sends one frame per round, in turn over
its successors. When every node of an edge's path has run, later rounds go on with what is newer.
Where contacts move, an edge laid at the start is soon off them: the graph is then laid anew over
the contacts of the moment as soon as its last layer has sent, each time as a new query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeAlias

from waggle.baselines.peers.organiser import NodeView, Opening, RoundPlan, Send, contact_graph

Edge: TypeAlias = tuple[int, int]
Contacts: TypeAlias = Mapping[int, Sequence[int]]
"""The contacts of every node, or those of them that it sends to, in drawn order."""


class Dag:
    """Edges added one by one; one that would close a cycle is refused."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self._place = {node: place for place, node in enumerate(nodes)}
        self._reach = [1 << place for place in range(len(nodes))]
        """For every node the nodes that it reaches, itself included, as bits."""
        self.successors: dict[int, list[int]] = {node: [] for node in nodes}

    def closes_cycle(self, edge: Edge) -> bool:
        """Whether the head of an edge reaches its tail already."""
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
    """A graph that was made of chances."""

    successors: Mapping[int, Sequence[int]]
    considered: Mapping[Edge, bool]
    """Edges that would have closed no cycle when their turn came, and whether each was taken."""


def draw(nodes: Sequence[int], chance: Mapping[Edge, float], rng: Random | None) -> SampledGraph:
    """Draw a graph edge by edge in a shuffled order; without `rng`, take all above one half.

    Those above one half come by falling chance, so the surer edge of a cycle stays.
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
    """Return how far every node is from the one that is listed first, where it can be reached."""
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
    """Send along the edges whose turn it is, where they are contacts now."""
    due = gated(successors, layer, round)
    return RoundPlan(tuple(Send(u, v) for u, v in due if u in views and v in views[u].ports))


class Sweeps:
    """A graph under execution: laid once, or again for every sweep where contacts move.

    Args:
        opening: what the designer was told at the start.
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
        """Send along the edges whose turn it is, of a new graph where the last one is done."""
        if self._moving and round - self._began > max(self.layer.values(), default=0):
            self._start(round, contact_graph(views))
        return routed(self.successors, self.layer, round - self._began, views)
