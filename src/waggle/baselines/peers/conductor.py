"""Plays an organiser inside the common runtime, and holds it to the common limits.

A peer is registered as a law, so that recipes, rows, records and tables take it as they take any
other method: the same cases, transport, answering rule, counters and scores. It differs in one
thing: it keeps state through an episode, so the engine asks its conductor instead of asking for
stateless decisions. The conductor writes the transient native message of the NativeMsg control on
the port the organiser chose, and answers by the rule all controls share; only the organisation
differs. Invariants: a send off a current contact, a second frame of a node in a round, a send in
another's name and an oversized memo end the episode with an error; nothing of the world reaches an
organiser but views, contacts and what was delivered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from waggle.baselines import matched
from waggle.baselines.peers.organiser import (
    MAX_MEMO,
    Memo,
    NodeView,
    Opening,
    Organiser,
    Outcome,
    Received,
    RoundPlan,
    Send,
    Solution,
    Solver,
    ViewSolver,
)
from waggle.core.errors import ConfigError, ContractError
from waggle.core.protocols import Case, Decode, Request, Usage, World, Write
from waggle.core.schema import MAX_BIN, MAX_FACT, Contract, Decision
from waggle.core.seeds import derive, mix
from waggle.runtime.state import Shown
from waggle.runtime.switches import Switches


class Peer:
    """A law whose decisions come from an organiser with state of its own."""

    def __init__(self, organiser: Organiser, digest: str = "", solver: Solver | None = None):
        self.organiser = organiser
        self.digest = digest
        self._solver = solver or ViewSolver()

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.organiser.name

    def switches(self, contract: Contract) -> Switches:
        """Let messages repeat, as every transient exchange does."""
        return Switches(repeats=True)

    def conduct(self, world: World, case: Case) -> Conductor:
        """Return what decides for all nodes of one episode.

        Raises:
            ConfigError: where contacts move or frames carry no task data; what a peer does there
                is not worked out, and its rows would speak of something else.
        """
        if not world.snapshots or world.handle_life != "episode":
            raise ConfigError(f"peer {self.name!r} plays Silo so far; leave out {case.substrate}")
        return Conductor(self.organiser, self._solver, world, case)

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Refuse: an organisation has no stateless decisions."""
        raise ContractError(
            f"{self.name!r} organises whole episodes and answers no single view; play it with "
            "`waggle run` or `waggle eval` on the synchronous engine"
        )


class _Parcel(NamedTuple):
    """What travels with a frame: the task's own payload, and the organiser's memo."""

    payload: object
    memo: Memo


class _Mail:
    """A world whose frames also carry memos; everything else is the world's own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.outgoing: dict[tuple[int, int], Memo] = {}
        self.inboxes: dict[int, list[Received]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def payload(self, write: Write) -> _Parcel:
        """Seal what the task sends along together with the memo."""
        memo = self.outgoing.pop((write.sender, write.receiver), ())
        return _Parcel(self._world.payload(write), memo)

    def receive(self, write: Write, payload: object) -> Write | None:
        """Open a parcel that arrived."""
        assert isinstance(payload, _Parcel)
        arrived = self._world.receive(write, payload.payload)
        if arrived is not None:
            received = Received(write.sender, payload.memo)
            self.inboxes.setdefault(write.receiver, []).append(received)
        return arrived


class _Group(NamedTuple):
    """Nodes that are planned for together, and the organiser's state for them."""

    nodes: tuple[int, ...]
    state: Any


class Conductor:
    """The organiser of one episode with its state, and the memos under way.

    `draw` tells samples of one case apart in training; it is 0 in evaluation.
    """

    def __init__(
        self, organiser: Organiser, solver: Solver, world: World, case: Case, draw: int = 0
    ) -> None:
        self._organiser = organiser
        self._solver = solver
        self._mail = _Mail(world)
        self.world = cast(World, self._mail)
        """What the engine plays instead of the bare world."""
        stream = (case.seed, "peer", organiser.name, draw)
        self._draws = [derive(*stream, key) for key in world.keys]
        self._before: dict[int, Solution] = {}
        ranked = sorted(range(world.n), key=self._draws.__getitem__)
        if organiser.centralised:
            self._groups = [self._begin(tuple(ranked), derive(*stream))]
        else:
            self._groups = [self._begin((node,), self._draws[node]) for node in ranked]

    def _begin(self, nodes: tuple[int, ...], seed: int) -> _Group:
        contacts = {node: tuple(self._drawn(node)) for node in nodes}
        opening = Opening(self.world.contract, self.world.rounds - 1, contacts, seed)
        return _Group(nodes, self._organiser.begin(opening))

    def _drawn(self, node: int) -> list[int]:
        """Return the contacts of a node in its own order."""
        keys, draw = self.world.keys, self._draws[node]
        return sorted(self.world.neighbours(node), key=lambda j: mix(draw, keys[j]))

    def decide(self, round: int, nodes: Sequence[int], shown: Sequence[Shown]) -> list[Decode]:
        """Let the organiser plan the round, and return the decision of every node."""
        present = dict(zip(nodes, shown, strict=True))
        inboxes, self._mail.inboxes = self._mail.inboxes, {}
        views = {i: self._view(i, s, inboxes.get(i, [])) for i, s in present.items()}
        outcomes = self._outcomes(views)
        last = round >= self.world.rounds - 1
        sends: dict[int, Send] = {}
        calls = {i: int(bool(v.inbox) or i not in self._before) for i, v in views.items()}
        for group in self._groups:
            own = {i: views[i] for i in group.nodes if i in views}
            told = [o for o in outcomes if o.sender in own]
            if told:
                self._organiser.feedback(group.state, round, told)
            if own and not last:  # nothing that is sent now would arrive in time
                plan = self._organiser.plan(group.state, round, own)
                sends |= self._checked(plan, own)
                for i in own:
                    calls[i] = max(calls[i], int(i in plan.solves))
                    calls[i] += (plan.extra_calls or {}).get(i, 0)
        self._mail.outgoing = {(s.node, s.contact): s.memo for s in sends.values()}
        self._before.update({i: v.solution for i, v in views.items()})
        return [
            Decode(self._decision(s, sends.get(i)), Usage(calls=calls[i] * views[i].solution.calls))
            for i, s in present.items()
        ]

    def _view(self, node: int, shown: Shown, inbox: list[Received]) -> NodeView:
        handles = {j: handle for handle, j in shown.handles.items()}
        rows = {port.channel: port for port in shown.view.private.channels}
        ports = {j: rows[handles[j]] for j in self._drawn(node) if j in handles}
        places = {j: place for place, j in enumerate(ports)}
        mail = sorted(inbox, key=lambda r: places.get(r.sender, len(places)))
        solution = self._solver.solve(shown.view)
        return NodeView(shown.view, ports, solution, tuple(mail), shown.entropy)

    def _outcomes(self, views: Mapping[int, NodeView]) -> list[Outcome]:
        """Say of every frame that arrived how much its receiver has gained since."""
        return [
            Outcome(received.sender, i, local_gain(self._before.get(i), v))
            for i, v in views.items()
            for received in v.inbox
        ]

    def _checked(self, plan: RoundPlan, own: Mapping[int, NodeView]) -> dict[int, Send]:
        """Return the sends of a plan by node, or refuse what breaks a limit."""
        found: dict[int, Send] = {}
        for send in plan.sends:
            if send.node not in own:
                self._refuse("sends in the name of a node that it does not plan for")
            if send.contact not in own[send.node].ports:
                self._refuse("sends off the contacts of a node; choose one of its ports")
            if send.node in found:
                self._refuse("sends two frames of one node in a round; a node has one")
            if len(send.memo) > MAX_MEMO or any(len(str(e)) > MAX_FACT for e in send.memo):
                self._refuse(f"writes a memo beyond {MAX_MEMO} entries of {MAX_FACT} characters")
            found[send.node] = send
        return found

    def _refuse(self, what: str) -> None:
        raise ContractError(f"organiser {self._organiser.name!r} {what}")

    def _decision(self, shown: Shown, send: Send | None) -> Decision:
        handle = None
        if send is not None:
            handle = next(h for h, j in shown.handles.items() if j == send.contact)
        return matched.message_on(shown.view, handle)


def local_gain(before: Solution | None, now: NodeView) -> float:
    """Return how much a node gained with the last round, from what its own view shows.

    Silo's views say what share of the pieces held came in; elsewhere a rise of confidence counts.
    """
    gained = now.view.private.observation.get("gained")
    if isinstance(gained, int):
        return gained / MAX_BIN
    return max(0.0, now.solution.confidence - (before.confidence if before else 0.0))
