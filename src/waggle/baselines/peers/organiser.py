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

from waggle.core.schema import MAX_BIN, Contract, Port, View

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
    calls: int = 1
    """What the solution cost."""


class Solver(Protocol):
    """Turns one view into a solution; the private proposal itself is the view's."""

    def solve(self, view: View) -> Solution:
        """Read or work out how far a node has come."""
        ...


class ViewSolver:
    """The deterministic solver: it reads the private proposal that the view has already.

    With private workers hired the proposal is theirs, and their calls and tokens are counted as
    every worker's are; this solver adds its own call for every time a node solves.
    """

    def solve(self, view: View) -> Solution:
        """Take readiness and coverage of the view; without coverage, the strongest support."""
        ready = bool(view.private.ready)
        bins = view.private.coverage
        if bins is None:
            bins = max((e.support for e in view.private.evidence if not e.conflict), default=0)
        return Solution(1.0 if ready else bins / MAX_BIN, ready)


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
    """Return how much a node holds that a contact may lack, in bins; 0 where it is not shown."""
    value = view.ports[contact].facts.get("offer", 0) if contact in view.ports else 0
    return value if isinstance(value, int) else 0
