"""The planted tasks of the peers: a ring of eight on which inward edges pay, and views by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waggle.baselines.peers import gptswarm
from waggle.baselines.peers.organiser import NodeView, Opening, Organiser, Received, Solution
from waggle.core.protocols import Case
from waggle.core.schema import Contract, Port, Private, Proposal, View

CONTRACT = Contract("silo/toy", "", ("WAIT", "GATHER"))
RING = {i: ((i + 1) % 8, (i - 1) % 8) for i in range(8)}
CASES = [Case("silo", "I-05", 8, 10_000 + k) for k in range(4)]
KINDS = gptswarm.classes(RING)


def node_view(
    inbox: Sequence[Received] = (),
    *,
    gained: int = 0,
    coverage: float = 0.25,
    offers: int = 5,
    contacts: Sequence[int] = (1, 2, 3),
) -> NodeView:
    ports = {j: Port(f"h{j}", j, {"offer": offers}) for j in contacts}
    private = Private({"gained": gained}, channels=tuple(ports.values()))
    view = View(CONTRACT, private, Proposal("GATHER"), (), None, 4)
    return NodeView(view, ports, Solution(coverage, False), tuple(inbox), 1, gained / 4)


def ways(successors: Mapping[int, Sequence[int]]) -> list[str]:
    """Return the direction of every edge of a graph on the ring."""
    return [KINDS[u, v].split()[0] for u, heads in successors.items() for v in heads]


def inward_pays(organiser: Organiser, case: Case, draw: int) -> float:
    """Score a graph on the ring: inward edges pay, outward ones cost."""
    found = ways(organiser.begin(Opening(CONTRACT, 9, RING, draw)).sweeps.successors)
    return (8 + found.count("inward") - found.count("outward")) / 16
