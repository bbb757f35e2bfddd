"""What an organisation of another paper is here: who sends to which contact, round by round.

An organiser never touches the world. Each round it gets views and names sends; `conductor` plays
them through the runtime that every law is played in. A centralised designer plans for all nodes at
once and sees the contact graph, as its paper has it; any other organiser is begun, asked and told
of outcomes for one node at a time, with that node's view alone. What contacts know of one another
then travels as a memo beside the trace of a frame. Invariant: draws are named by the seed of the
episode or the node, and mappings list nodes in a drawn order, so a relabelled swarm is organised
alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from waggle.core.protocols import Request, Usage
from waggle.core.relations import rows
from waggle.core.schema import MAX_BIN, Contract, Decision, Port, View

Memo: TypeAlias = tuple["int | str", ...]
"""What an organiser writes to itself on a frame: a few whole numbers and words."""
MAX_MEMO = 16
"""Entries of a memo; words have 40 characters at most."""


class Solution(NamedTuple):
    """What a solver makes of one view."""

    confidence: float
    """From 0 to 1; the share of what the answer needs, where the view tells it."""
    ready: bool
    """Whether the answer can be constructed from what is held."""
    usage: Usage = Usage()
    """What the solution cost; a node that does not solve in a round costs nothing."""
    decision: Decision | None = None
    """What the solver itself would do; None leaves it to the rule that all controls share."""


class Solver(Protocol):
    """Turns views into solutions (see `solvers`)."""

    def solve(self, requests: Sequence[Request]) -> Sequence[Solution]:
        """Work out how far some nodes have come, and what they do."""
        ...


class Received(NamedTuple):
    """A frame that reached a node with the last round."""

    sender: int
    memo: Memo


class NodeView(NamedTuple):
    """What an organiser may read of one node in one round."""

    view: View
    ports: Mapping[int, Port]
    """Current contacts in the node's own drawn order, which lasts for the episode."""
    solution: Solution
    inbox: tuple[Received, ...]
    entropy: int
    """The node's own draw for this update."""
    gain: float = 0.0
    """How much the node gained with the last round, from 0 to 1 (`solvers.local_gain`)."""


class Outcome(NamedTuple):
    """What became of a frame that arrived: how much its receiver gained, from 0 to 1."""

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
    """What an organiser wants done in one round."""

    sends: tuple[Send, ...] = ()
    solves: frozenset[int] = frozenset()
    """Nodes that solve although nothing new has reached them."""
    extra_calls: Mapping[int, int] | None = None
    """Calls beyond the one of solving, by node."""


@dataclass(frozen=True)
class Opening:
    """What an organiser is told before the first round."""

    contract: Contract
    rounds: int
    """Rounds in which frames can arrive in time."""
    contacts: Mapping[int, tuple[int, ...]]
    """The nodes to plan for, each with its contacts at the start, in drawn order."""
    seed: int
    """Names every draw: of the episode for a designer, of the node for the others."""
    moving: bool = False
    """Whether contacts come and go, so that those of a round are the ports of its views."""


@runtime_checkable
class Organiser(Protocol):
    """One method of organisation; its state belongs to one episode."""

    @property
    def name(self) -> str:
        """What the method is called."""
        ...

    @property
    def centralised(self) -> bool:
        """Whether one designer sees all nodes and the contact graph."""
        ...

    def begin(self, opening: Opening) -> Any:
        """Return fresh state for an episode, or for one node of it."""
        ...

    def plan(self, state: Any, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        """Say who sends to whom now, for the nodes of these views."""
        ...

    def feedback(self, state: Any, round: int, outcomes: Sequence[Outcome]) -> None:
        """Learn, within the episode, what became of the frames sent before."""
        ...


def held_bins(view: NodeView) -> int:
    """Return how far a node has come, in the bins of a view."""
    return round(MAX_BIN * view.solution.confidence)


def offer(view: NodeView, contact: int) -> int:
    """Return how much a node holds that a contact may lack, in bins.

    Silo shows it. On graphs it grows with the rounds since the contact was last told. Elsewhere
    contacts are alike, and it is what the node can say to any of them.
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
    """Return the contacts of every node now, in the drawn order of the views."""
    return {node: tuple(view.ports) for node, view in views.items()}
