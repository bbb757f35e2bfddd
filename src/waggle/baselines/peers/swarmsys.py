"""SwarmSys (arXiv 2510.10047): explorers, workers and validators, matched by profile.

From the paper: three roles in a closed loop of exploring, working and validating; agent profiles of
competence and availability, event profiles; probabilistic matching by embedding with epsilon-greedy
exploration; validated contributions reinforce the pair, others fade.
Reconstructed: neither code nor full text was available, so the loop is rebuilt from summaries.
Our choices: all constants in `Constants`, the shares of the roles, the explicit evaporation, the
switch of an idle node to a role that is missing around it, and the events: views name no pieces, so
an open sub-goal is the next bin of coverage that a node lacks. The profile of a contact is the
content of its last frame. Simpler than the summaries: each node draws its role independently,
compatibility belongs to a contact and not to a kind of event, no node matches itself, and a
validator checks whether its own view gained and holds no conflict, without comparing results.
There is no training; state lasts for one episode. Each node is planned separately: there is no
shared board.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from random import Random
from typing import ClassVar, NamedTuple

from waggle.baselines.peers.conductor import Peer
from waggle.baselines.peers.encoder import Vector, encode, levels, similarity, toward
from waggle.baselines.peers.organiser import (
    Memo,
    NodeView,
    Opening,
    Outcome,
    Received,
    RoundPlan,
    Send,
    held_bins,
)
from waggle.core.schema import MAX_BIN

EXPLORER, WORKER, VALIDATOR = "explorer", "worker", "validator"
ROLES = (EXPLORER, WORKER, WORKER, VALIDATOR)
"""The list that roles are drawn from, in the ratio 1 : 2 : 1."""
EVENT, RESULT, ACCEPT, REJECT = "event", "result", "accept", "reject"


@dataclass(frozen=True)
class Constants:
    """All constants of the reconstruction."""

    temperature: float = 0.5
    explore: float = 0.1
    """Share of uniform choices in matching."""
    weight: float = 0.15
    """Amount that one unit of compatibility adds to a similarity."""
    step: float = 0.25
    cap: float = 4.0
    evaporation: float = 0.95
    drift: float = 0.2
    """How far a competence moves toward a validated event."""
    timeout: int = 2
    """Rounds after which a claimed event is open again."""
    idle: int = 2
    """Rounds without work after which a node may switch its role."""
    checks: int = 2
    """Results that a validator checks in a round."""


class FrameNote(NamedTuple):
    """The memo that a frame carries beside its trace."""

    role: str
    kind: str
    """Event, result, accept or reject."""
    level: int
    """The bin of coverage that the event is about."""
    held: int
    """The sender's own bin of coverage."""
    workload: int

    def memo(self) -> Memo:
        """Return the note as the memo of a frame."""
        return (self.role, self.kind, self.level, self.held, self.workload)

    @classmethod
    def read(cls, memo: Memo) -> FrameNote | None:
        """Parse a memo; return None if it is not of this format."""
        if len(memo) != len(cls._fields):
            return None
        role, kind, *numbers = memo
        return cls(str(role), str(kind), *(int(number) for number in numbers))


class _Event(NamedTuple):
    level: int
    origin: int
    age: int


@dataclass
class Profile:
    """The state of one node: its own profile and those of its contacts."""

    task: str
    rng: Random
    role: str
    competence: Vector
    events: list[_Event] = field(default_factory=list)
    compatibility: dict[int, float] = field(default_factory=dict)
    """By contact: score of its results accepted here and of this node's results accepted there."""
    heard: dict[int, FrameNote] = field(default_factory=dict)
    idle: int = 0


class SwarmSys:
    """Explore, work and validate in neighbourhoods, by local profiles (reconstruction)."""

    name: ClassVar[str] = "swarmsys"
    centralised: ClassVar[bool] = False

    def __init__(self, constants: Constants | None = None) -> None:
        self._own = constants or Constants()

    def begin(self, opening: Opening) -> Profile:
        """Draw the role of a node; its competence starts as the vector of the task."""
        rng = Random(opening.seed)
        task = opening.contract.task
        return Profile(task, rng, rng.choice(ROLES), encode((task,)))

    def feedback(self, state: Profile, round: int, outcomes: Sequence[Outcome]) -> None:
        """Ignore the outcomes: reinforcement comes from validators."""

    def plan(self, state: Profile, round: int, views: Mapping[int, NodeView]) -> RoundPlan:
        """Process the memos received, then act by the role of the node."""
        ((node, view),) = views.items()
        state.compatibility = {
            j: value * self._own.evaporation for j, value in state.compatibility.items()
        }
        said = [(received, s) for received in view.inbox if (s := FrameNote.read(received.memo))]
        results = [(received, s) for received, s in said if s.kind == RESULT]
        for received, s in said:
            self._hear(state, received, s)
        self._adapt(state, view, bool(said))
        act = {EXPLORER: self._explore, WORKER: self._work, VALIDATOR: self._validate}[state.role]
        contact, kind, level = act(state, view, results)
        checked = min(len(results), self._own.checks) if state.role == VALIDATOR else 0
        state.events = [
            e._replace(age=e.age + 1) for e in state.events if e.age < self._own.timeout
        ]
        if contact is None:
            return RoundPlan(solves=frozenset({node}))
        said_now = FrameNote(state.role, kind, level, held_bins(view), len(state.events))
        return RoundPlan(
            (Send(node, contact, said_now.memo()),), frozenset({node}), {node: checked}
        )

    def _hear(self, state: Profile, received: Received, said: FrameNote) -> None:
        """Store a contact's profile, and its event or its verdict on this node's result."""
        state.heard[received.sender] = said
        if said.kind == EVENT:
            state.events.append(_Event(said.level, received.sender, 0))
        elif said.kind == ACCEPT:
            self._reinforce(state, received.sender, said.level)

    def _reinforce(self, state: Profile, contact: int, level: int) -> None:
        before = state.compatibility.get(contact, 0.0)
        state.compatibility[contact] = min(before + self._own.step, self._own.cap)
        goal = levels(state.task, level, level + 1)
        state.competence = toward(state.competence, goal, self._own.drift)

    def _adapt(self, state: Profile, view: NodeView, busy: bool) -> None:
        """Switch an idle node to a role that no contact has reported."""
        state.idle = 0 if busy else state.idle + 1
        around = {state.heard[j].role for j in view.ports if j in state.heard}
        absent = [role for role in dict.fromkeys(ROLES) if role not in {*around, state.role}]
        if state.idle >= self._own.idle and around and absent:
            state.role = state.rng.choice(absent)
            state.idle = 0

    def _explore(
        self, state: Profile, view: NodeView, results: object
    ) -> tuple[int | None, str, int]:
        """Send the next sub-goal to a matching contact."""
        level = _next(view)
        return self._match(state, view, level), EVENT, level

    def _work(self, state: Profile, view: NodeView, results: object) -> tuple[int | None, str, int]:
        """Work on the best-fitting event and reply to its origin, else on the next sub-goal."""
        here = [e for e in state.events if e.origin in view.ports]
        if not here:
            level = _next(view)
            return self._match(state, view, level), RESULT, level
        fits = [
            similarity(state.competence, levels(state.task, e.level, e.level + 1)) for e in here
        ]
        event = here[max(range(len(here)), key=lambda k: (fits[k], here[k].age, -k))]
        state.events.remove(event)
        return event.origin, RESULT, event.level

    def _validate(
        self, state: Profile, view: NodeView, results: Sequence[tuple[Received, FrameNote]]
    ) -> tuple[int | None, str, int]:
        """Check received results against private evidence; send the verdict on the best of them."""
        verdicts = []
        for received, said in results[: self._own.checks]:
            accepted = _confirmed(view)
            if accepted:
                self._reinforce(state, received.sender, said.level)
            if received.sender in view.ports:  # it may have left since
                verdicts.append((accepted, received.sender, said.level))
        if not verdicts:
            level = _next(view)
            return self._match(state, view, level), EVENT, level
        accepted, contact, level = max(verdicts, key=lambda v: v[0])
        return contact, ACCEPT if accepted else REJECT, level

    def _match(self, state: Profile, view: NodeView, level: int) -> int | None:
        """Draw a contact, weighted by similarity, compatibility and availability of its profile."""
        contacts = list(view.ports)
        if not contacts:
            return None
        if state.rng.random() < self._own.explore:
            return state.rng.choice(contacts)
        goal = levels(state.task, level, level + 1)
        return state.rng.choices(contacts, [self._weight(state, j, goal) for j in contacts])[0]

    def _weight(self, state: Profile, contact: int, goal: Vector) -> float:
        said = state.heard.get(contact)
        profile = levels(state.task, 0, said.held) if said else encode((state.task,))
        available = 1 / (1 + said.workload) if said else 1.0
        bonus = self._own.weight * state.compatibility.get(contact, 0.0)
        return exp((similarity(profile, goal) + bonus) / self._own.temperature) * available


def _next(view: NodeView) -> int:
    """Return the sub-goal of a node: the first bin of coverage that it lacks."""
    return min(held_bins(view), MAX_BIN - 1)


def _confirmed(view: NodeView) -> bool:
    """Return whether the receiver gained something and nothing contradicts what it holds.

    If claims have a source, two sources must support the same claim.
    """
    private = view.view.private
    if any(e.conflict for e in private.evidence) or not view.gain:
        return False
    if not any("source" in row.facts for row in private.claims):
        return True
    heard = Counter(trace.claim for trace in view.view.traces if not trace.conflict)
    heard.update(e.claim for e in private.evidence)
    return any(sources > 1 for sources in heard.values())


def swarmsys() -> Peer:
    """Explorers, workers and validators matched by local profiles (SwarmSys, reconstruction)."""
    return Peer(SwarmSys())
