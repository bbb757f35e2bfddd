"""The interface of organisers: which node sends to which contact, round by round.

An organiser has no access to the world. Each round it receives views and returns sends; `conductor`
executes them in the runtime that all laws use. A centralised designer plans for all nodes at once
and sees the contact graph, as in its paper. Any other organiser handles each node separately: its
state, plans and outcomes are those of one node, and it sees only that node's view. Contacts then
exchange information about each other in a memo beside the trace of a frame. Invariant: random draws
are seeded by the episode or the node, and mappings list nodes in a drawn order, so a relabelled
swarm is organised in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from waggle.core.protocols import Request, Usage
from waggle.core.relations import rows
from waggle.core.schema import MAX_BIN, Contract, Decision, Port, View

Memo: TypeAlias = tuple["int | str", ...]
"""The integers and short strings that an organiser attaches to a frame for its own use."""
MAX_MEMO = 16
"""Most entries of a memo; strings have 40 characters at most."""


class Solution(NamedTuple):
    """The result of a solver for one view."""

    confidence: float
    """From 0 to 1; the share of the information that the answer needs, if the view shows it."""
    ready: bool
    """Whether the answer can be constructed from the data held."""
    usage: Usage = Usage()
    """Cost of the solution; a node that does not solve in a round costs nothing."""
    decision: Decision | None = None
    """The solver's own decision; if None, the rule that all controls share decides."""


class Solver(Protocol):
    """Turns views into solutions (see `solvers`)."""

    def solve(self, requests: Sequence[Request]) -> Sequence[Solution]:
        """Return the solution of every request, in order."""
        ...


class Received(NamedTuple):
    """A frame that reached a node in the last round."""

    sender: int
    memo: Memo


class NodeView(NamedTuple):
    """The data of one node that an organiser may read in one round."""

    view: View
    ports: Mapping[int, Port]
    """Current contacts, in an order drawn for the node and kept for the episode."""
    solution: Solution
    inbox: tuple[Received, ...]
    entropy: int
    """The node's random number for this update."""
    gain: float = 0.0
    """How much the node gained in the last round, from 0 to 1 (`solvers.local_gain`)."""


class Outcome(NamedTuple):
    """The outcome of a delivered frame: how much its receiver gained, from 0 to 1."""

    sender: int
    receiver: int
    gain: float


class Send(NamedTuple):
    """One frame from a node to a contact."""

    node: int
    contact: int
    memo: Memo = ()


@dataclass(frozen=True)
class RoundPlan:
    """The plan of an organiser for one round."""

    sends: tuple[Send, ...] = ()
    solves: frozenset[int] = frozenset()
    """Nodes that solve although nothing new has reached them."""
    extra_calls: Mapping[int, int] | None = None
    """Calls in addition to the one of solving, by node."""


@dataclass(frozen=True)
class Opening:
    """The information that an organiser gets before the first round."""

    contract: Contract
    rounds: int
    """Number of rounds whose frames can still arrive in time."""
    contacts: Mapping[int, tuple[int, ...]]
    """The nodes to plan for, each with its contacts at the start, in drawn order."""
    seed: int
    """Seed of all random draws: that of the episode for a designer, else of the node."""
    moving: bool = False
    """Whether contacts change; those of a round are then the ports of its views."""


@runtime_checkable
class Organiser(Protocol):
    """One method of organisation; its state belongs to one episode."""

    @property
    def name(self) -> str:
        """The name of the method."""
        ...

    @property
    def centralised(self) -> bool:
        """Whether one designer sees all nodes and the contact graph."""
        ...

    def begin(self, opening: Opening) -> Any:
        """Return fresh state for an episode, or for one node of it."""
        ...

    def plan(self, state: Any, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        """Return the sends of this round, for the nodes of these views."""
        ...

    def feedback(self, state: Any, round: int, outcomes: Sequence[Outcome]) -> None:
        """Process, within the episode, the outcomes of the frames sent before."""
        ...


def held_bins(view: NodeView) -> int:
    """Return the confidence of a node, in the bins of a view."""
    return round(MAX_BIN * view.solution.confidence)


def offer(view: NodeView, contact: int) -> int:
    """Return how much a node holds that a contact may lack, in bins.

    Views of Silo show it. On graphs it grows with the rounds since the last frame to the contact.
    Elsewhere it is the same for all contacts: the largest support that the node can send.
    """
    if contact not in view.ports:
        return 0
    facts = view.ports[contact].facts
    value = facts.get("offer")
    if isinstance(value, int):
        return value
    if "answer" in view.view.private.observation:
        age = facts.get("told")
        return min(MAX_BIN, age - 1) if isinstance(age, int) else MAX_BIN
    return max((row.support for row in rows(view.view) if not row.conflict), default=0)


def contact_graph(views: Mapping[int, NodeView]) -> dict[int, tuple[int, ...]]:
    """Return the current contacts of every node, in the drawn order of the views."""
    return {node: tuple(view.ports) for node, view in views.items()}
