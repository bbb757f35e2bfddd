"""Runs an organiser inside the common runtime, and enforces the common limits.

A peer is registered as a law, so recipes, rows, records and tables treat it like any other method:
the same cases, transport, answering rule, counters and scores. The only difference is that it keeps
state through an episode, so the engine calls its conductor instead of requesting stateless
decisions. The conductor writes the native message (`matched.message_on`) to the contact that the
organiser chose, and answers by the rule that all controls share or by the node's solver; only the
organisation differs. If a node has no message, its send is dropped together with its memo.
Invariants: a send to a node that is not a current contact, a second frame of a node in a round, a
send on behalf of another node and an oversized memo end the episode with an error; an organiser
receives nothing of the world but views, contacts and deliveries; the outcome of a frame is reported
only while its receiver is still a contact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from waggle import plugins
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
)
from waggle.baselines.peers.solvers import LawSolver, ViewSolver, local_gain, read
from waggle.core.errors import ConfigError, ContractError
from waggle.core.order import Order
from waggle.core.protocols import Case, Decode, Request, Usage, World, Write
from waggle.core.schema import MAX_FACT, WAIT, Contract, Decision
from waggle.core.seeds import derive, mix
from waggle.core.worker import Workplace
from waggle.laws.shipped import is_folder, of_folder
from waggle.runtime.state import ShownView
from waggle.runtime.switches import Switches


class Peer:
    """A law whose decisions come from a stateful organiser."""

    def __init__(self, organiser: Organiser, digest: str = "", solver: Solver | None = None):
        self.organiser = organiser
        self._digest = digest
        self.order: Order = "shuffled"
        """The canon order of the views that the solver reads."""
        self._solver = solver or ViewSolver()

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.organiser.name

    @property
    def digest(self) -> str:
        """The digest of the parameters."""
        return self._digest

    def switches(self, contract: Contract) -> Switches:
        """Allow repeated messages, as in every transient exchange."""
        return Switches(repeats=True)

    def conduct(self, world: World, case: Case) -> Conductor:
        """Return the conductor that decides for all nodes of one episode."""
        return Conductor(self.organiser, self._solver, world, case)

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Raise an error: a peer makes no stateless decisions."""
        raise ContractError(
            f"{self.name!r} organises whole episodes and answers no single view; play it with "
            "`waggle run` or `waggle eval` on the synchronous engine"
        )


class _Parcel(NamedTuple):
    """The content of a frame: the task's payload and the organiser's memo."""

    payload: object
    memo: Memo


class _Mail:
    """A wrapper of a world whose frames also carry memos; all else is delegated to the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.outgoing: dict[tuple[int, int], Memo] = {}
        self.inboxes: dict[int, list[Received]] = {}
        if isinstance(world, Workplace):  # protocol checks ignore `__getattr__`
            self.staff, self.work, self.adopt = world.staff, world.work, world.adopt
        if hasattr(world, "contradicts"):  # not every world has this hook
            self.contradicts = self._contradicts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def payload(self, write: Write) -> _Parcel:
        """Return the task's payload together with the memo."""
        memo = self.outgoing.pop((write.sender, write.receiver), ())
        return _Parcel(self._world.payload(write), memo)

    def receive(self, write: Write, payload: object) -> Write | None:
        """Unpack a delivered parcel, and put its memo into the receiver's inbox."""
        assert isinstance(payload, _Parcel)
        arrived = self._world.receive(write, payload.payload)
        if arrived is not None:
            received = Received(write.sender, payload.memo)
            self.inboxes.setdefault(write.receiver, []).append(received)
        return arrived

    def depart(self, write: Write, payload: object) -> _Parcel:
        """Complete the task's payload before its parcel leaves for another shard."""
        assert isinstance(payload, _Parcel)
        world: Any = self._world
        return payload._replace(payload=world.depart(write, payload.payload))

    def _contradicts(self, write: Write, payload: object) -> bool:
        """Return whether the task's payload in a parcel contradicts the write."""
        assert isinstance(payload, _Parcel)
        world: Any = self._world
        return bool(world.contradicts(write, payload.payload))


class _Group(NamedTuple):
    """Nodes that are planned together, and the organiser's state for them."""

    nodes: tuple[int, ...]
    state: Any


class _Plan(NamedTuple):
    """The plans of all groups for one round, by node; every node belongs to one group."""

    sends: dict[int, Send]
    solves: set[int]
    extra_calls: dict[int, int]


class Conductor:
    """The organiser of one episode with its state, and the memos in transit.

    `draw` distinguishes samples of one case in training; it is 0 in evaluation.
    """

    def __init__(
        self, organiser: Organiser, solver: Solver, world: World, case: Case, draw: int = 0
    ) -> None:
        self._organiser = organiser
        self._solver = solver
        self._mail = _Mail(world)
        self.world = cast(World, self._mail)
        """The wrapped world, which the engine plays instead of the original."""
        stream = (case.seed, "peer", organiser.name, draw)
        self._draws = [derive(*stream, key) for key in world.keys]
        self._before: dict[int, NodeView] = {}
        ranked = sorted(range(world.n), key=self._draws.__getitem__)
        if organiser.centralised:
            self._groups = [self._begin(tuple(ranked), derive(*stream))]
        else:
            self._groups = [self._begin((node,), self._draws[node]) for node in ranked]

    def _begin(self, nodes: tuple[int, ...], seed: int) -> _Group:
        contacts = {node: tuple(self._drawn(node)) for node in nodes}
        moving = self.world.handle_life == "contact"
        opening = Opening(self.world.contract, self.world.rounds - 1, contacts, seed, moving)
        return _Group(nodes, self._organiser.begin(opening))

    def _drawn(self, node: int) -> list[int]:
        """Return the contacts of a node in an order drawn for that node."""
        keys, draw = self.world.keys, self._draws[node]
        return sorted(self.world.neighbours(node), key=lambda j: mix(draw, keys[j]))

    def decide(self, round: int, nodes: Sequence[int], shown: Sequence[ShownView]) -> list[Decode]:
        """Let the organiser plan the round, and return the decision of every node.

        A node solves in its first and in the last update, whenever a frame has reached it, and when
        the organiser requests it. A repeated call to a solver gives the same result, so it is
        charged but not made.
        """
        present = dict(zip(nodes, shown, strict=True))
        inboxes, self._mail.inboxes = self._mail.inboxes, {}
        last = round >= self.world.rounds - 1
        due = [i for i in nodes if last or i in inboxes or i not in self._before]
        solved = self._solve(due, present)
        views = {i: self._view(i, s, inboxes.get(i, []), solved.get(i)) for i, s in present.items()}
        self._before.update(views)
        plan = self._plan(round, views, last)
        requested = [i for i in nodes if i not in solved and i in plan.solves]
        solved |= self._solve(requested, present)
        self._mail.outgoing = {(s.node, s.contact): s.memo for s in plan.sends.values()}
        return [
            Decode(
                self._decision(s, plan.sends.get(i), solved.get(i)),
                _usage(solved.get(i), plan.extra_calls.get(i, 0)),
            )
            for i, s in present.items()
        ]

    def _plan(self, round: int, views: Mapping[int, NodeView], last: bool) -> _Plan:
        """Report to every group the outcomes of its frames, and collect its plan.

        The last round is not planned, as nothing that is sent in it would arrive in time.
        """
        outcomes = [
            Outcome(received.sender, i, v.gain) for i, v in views.items() for received in v.inbox
        ]
        plans = []
        for group in self._groups:
            own = {i: views[i] for i in group.nodes if i in views}
            reported = [
                o for o in outcomes if o.sender in own and o.receiver in own[o.sender].ports
            ]
            if reported:
                self._organiser.feedback(group.state, round, reported)
            if own and not last:
                plan = self._organiser.plan(group.state, round, own)
                self._check(plan, own)
                plans.append(plan)
        return _Plan(
            sends={send.node: send for plan in plans for send in plan.sends},
            solves={i for plan in plans for i in plan.solves},
            extra_calls={i: n for plan in plans for i, n in (plan.extra_calls or {}).items()},
        )

    def _solve(self, nodes: Sequence[int], present: Mapping[int, ShownView]) -> dict[int, Solution]:
        requests = [Request(present[i].view, present[i].entropy) for i in nodes]
        return dict(zip(nodes, self._solver.solve(requests), strict=True))

    def _view(
        self, node: int, shown: ShownView, inbox: list[Received], solution: Solution | None
    ) -> NodeView:
        handles = {j: handle for handle, j in shown.handles.items()}
        rows = {port.channel: port for port in shown.view.private.channels}
        ports = {j: rows[handles[j]] for j in self._drawn(node) if j in handles}
        keys, draw = self.world.keys, self._draws[node]
        mail = tuple(sorted(inbox, key=lambda r: mix(draw, keys[r.sender])))
        found = solution or read(shown.view)
        view = NodeView(shown.view, ports, found, mail, shown.entropy)
        return view._replace(gain=local_gain(self._before.get(node), view))

    def _check(self, plan: RoundPlan, own: Mapping[int, NodeView]) -> None:
        """Raise an error if a plan breaks a limit."""
        found: set[int] = set()
        for send in plan.sends:
            if send.node not in own:
                self._refuse("sends in the name of a node that it does not plan for")
            if send.contact not in own[send.node].ports:
                self._refuse("sends off the contacts of a node; choose one of its ports")
            if send.node in found:
                self._refuse("sends two frames of one node in a round; a node has one")
            if len(send.memo) > MAX_MEMO or any(len(str(e)) > MAX_FACT for e in send.memo):
                self._refuse(f"writes a memo beyond {MAX_MEMO} entries of {MAX_FACT} characters")
            found.add(send.node)
        if not {*plan.solves, *(plan.extra_calls or {})} <= own.keys():
            self._refuse("lets a node solve that it does not plan for")

    def _refuse(self, what: str) -> None:
        raise ContractError(f"organiser {self._organiser.name!r} {what}")

    def _decision(self, shown: ShownView, send: Send | None, solution: Solution | None) -> Decision:
        handle = None
        if send is not None:
            handle = next(h for h, j in shown.handles.items() if j == send.contact)
        common = matched.message_on(shown.view, handle)
        own = None if solution is None else solution.decision
        if own is None or (common.deposits and own.task_action == WAIT):
            return common  # a node that waits can send nothing
        return msgspec.structs.replace(own, deposits=common.deposits)


def _usage(solution: Solution | None, extra_calls: int) -> Usage:
    """Charge a node for its solution, once and for every further call."""
    if solution is None:
        return Usage(calls=extra_calls)
    each = msgspec.structs.asdict(solution.usage)
    return Usage(**{name: count * (1 + extra_calls) for name, count in each.items()})


class _Solved(Peer):
    """A peer whose nodes solve with a law; tables read the attributes of that law."""

    def __init__(self, peer: Peer, law: Any) -> None:
        super().__init__(peer.organiser, peer.digest, LawSolver(law))
        self.order = getattr(law, "order", "shuffled")
        self._law = law

    @property
    def digest(self) -> str:
        """The digests of the parameters and of the weights of the law."""
        parts = (self._digest, getattr(self._law, "digest", ""))
        return " ".join(part for part in parts if part)

    def __getattr__(self, name: str) -> Any:
        if name in ("max_failed", "trouble", "load", "teacher", "backbone"):
            return getattr(self._law, name)
        raise AttributeError(name)


def organised(
    method: str, solver: str, parameters: str = "", options: str | Mapping[str, Any] = ""
) -> Peer:
    """Organise nodes by the method of a peer; they solve with a law, such as a chat endpoint.

    Args:
        method: name of the peer, from `waggle list methods`.
        solver: law that solves: its name, or a folder of trained weights.
        parameters: file written by `waggle fit`, for a trained method.
        options: options of the solver as a JSON object, e.g. {"base_url": "http://host/v1"}.
    """
    peer = plugins.get_law(method, **({"parameters": parameters} if parameters else {}))
    if not isinstance(peer, Peer):
        raise ConfigError(f"{method!r} is no peer; choose one of `waggle list methods`")
    try:
        found = json.loads(options or "{}") if isinstance(options, str) else dict(options)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"options are no JSON ({str(error)[:80]}); write an object") from None
    if not isinstance(found, dict):
        raise ConfigError('options must be a JSON object, such as {"model": "NAME"}')
    law = of_folder(Path(solver)) if is_folder(solver) else plugins.get_law(solver, **found)
    return _Solved(peer, law)
