"""The event-driven engine U: X = (S, M, P, T, R) in virtual time (App. "Event-driven extension").

S is the swarm and its world, M the messages in flight, P the pending calls with their saved
snapshots, T the timers, R membership and the schedule. A completed call is admitted against its
snapshot and then checked again against the *current* local state; a call that departure, expiry or
illegality has invalidated ends in bottom and has no effect. Without perturbation it equals the
synchronous engine bit for bit.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from msgspec.structs import replace

from waggle.core.admit import violations
from waggle.core.errors import ConfigError
from waggle.core.naming import claims_of
from waggle.core.protocols import Case, Decode, Law, Request, Shock, World
from waggle.core.schema import Commitment, Decision, Trace, action_argument
from waggle.runtime.state import ShownView
from waggle.runtime.sync import Engine, Episode, LocalUpdate
from waggle.runtime.transport import Message, Transport
from waggle.runtime.views import show

EXPIRY_CODES = frozenset(
    {
        "deposit.claim", "deposit.conflict", "fresh.exceeds", "relay.amplify", "relay.ttl",
        "commit.unready", "commit.unknown", "commit.coverage",
    }
)  # fmt: skip
"""Violations that mean that the evidence behind a stale decision is gone."""


class Phase(IntEnum):
    """The order of events at one instant of virtual time."""

    INJECT = 0
    MEMBERSHIP = 1
    START = 2
    COMPLETE = 3
    TICK = 4
    EXPIRE = 5
    DELIVER = 6
    CLOSE = 7


class Queue:
    """A queue of events by (time, phase); an event is a node, a message, or None for a timer.

    Events of one time and phase form a batch, which the handlers treat as a set. The queue
    therefore needs no tie-break, which could depend on a name.
    """

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int], list[Any]] = {}
        self._heap: list[tuple[int, int]] = []

    def post(self, time: int, phase: Phase, event: int | Message | None = None) -> None:
        """Schedule an event."""
        slot = (time, int(phase))
        batch = self._batches.get(slot)
        if batch is None:
            self._batches[slot] = [event]
            heapq.heappush(self._heap, slot)
        else:
            batch.append(event)

    def pop(self) -> tuple[int, Phase, list[Any]] | None:
        """Return the earliest batch, or None when nothing is left."""
        if not self._heap:
            return None
        time, phase = heapq.heappop(self._heap)
        return time, Phase(phase), self._batches.pop((time, phase))


class Pending(NamedTuple):
    """A pending call and the snapshot it was made on."""

    shown: ShownView
    started: int


class EventEngine(Engine):
    """Plays one episode as a sequence of event batches."""

    name = "event"

    def __init__(self, world: World, law: Law, case: Case, **settings: object) -> None:
        if hasattr(law, "conduct"):
            raise ConfigError(f"{law.name!r} organises in rounds; play it on the engine 'sync'")
        super().__init__(world, law, case, **settings)  # type: ignore[arg-type]
        self.queue = Queue()
        self.transport = Transport(self.swarm, self.schedule, self._post)
        self.pending: dict[int, Pending] = {}
        self.away: set[int] = set()
        self._cancelled: set[int] = set()
        self._done: list[LocalUpdate] = []
        self._shock: Shock | None = None
        self._expired = 0
        self._delivered = 0
        self._played = 0
        self._over = False

    def episode(self) -> Episode:
        """Play as a generator of request batches, so that a caller may batch across episodes."""
        self.recorder.header(self.header())
        self._open(0)
        handlers = {
            Phase.INJECT: self._on_inject,
            Phase.MEMBERSHIP: self._on_membership,
            Phase.START: self._on_start,
            Phase.TICK: self._on_tick,
            Phase.EXPIRE: self._on_expire,
            Phase.DELIVER: self._on_deliver,
            Phase.CLOSE: self._on_close,
        }
        while not self._over and (batch := self.queue.pop()) is not None:
            time, phase, events = batch
            if phase is Phase.COMPLETE:
                yield from self._on_complete(time, events)
            else:
                handlers[phase](time, events)
        return self.recorder.footer(self._played)

    def _open(self, time: int) -> None:
        """Set the timers of one nominal interval, unless the episode is over."""
        self._over = time >= self.world.rounds or self.world.done()
        if self._over:
            return
        for phase in (Phase.INJECT, Phase.TICK, Phase.EXPIRE, Phase.CLOSE):
            self.queue.post(time, phase)

    def _post(self, message: Message, arrival: int | None) -> None:
        """Schedule the arrival of a message; a lost one never arrives."""
        if arrival is not None:
            self.queue.post(arrival, Phase.DELIVER, message)

    def _on_inject(self, time: int, events: list[Any]) -> None:
        self._shock = self._inject(time)
        away = set(self.schedule.suspended(time))
        for node in away ^ self.away:
            self.queue.post(time, Phase.MEMBERSHIP, node)
        for node in self.world.active():
            if node not in away and node not in self.pending:
                self.queue.post(time, Phase.START, node)

    def _on_membership(self, time: int, nodes: list[Any]) -> None:
        """Let present nodes leave, which cancels a pending call, and let absent ones join."""
        self._cancelled.update((set(nodes) - self.away) & self.pending.keys())
        self.away ^= set(nodes)

    def _on_start(self, time: int, nodes: list[Any]) -> None:
        nodes.sort()
        for node, shown in zip(nodes, self._show(nodes, time), strict=True):
            self.pending[node] = Pending(shown, time)
            due = time + self.schedule.call_rounds(node, time)
            self.queue.post(due, Phase.COMPLETE, node)

    def _on_complete(
        self, time: int, nodes: list[Any]
    ) -> Generator[Sequence[Request], Sequence[Decode], None]:
        nodes.sort()
        calls = [self.pending.pop(node) for node in nodes]
        self._cancelled.update(set(nodes).difference(self.world.active()))
        current = {
            node: show(self.swarm, node, time, self.order)
            for node, call in zip(nodes, calls, strict=True)
            if call.started != time and node not in self._cancelled
        }
        admissions = yield from self._decide(nodes, [call.shown for call in calls], time)
        for node, call, admission in zip(nodes, calls, admissions, strict=True):
            done = LocalUpdate(node, call.shown, admission, [], None)
            self._done.append(self._take_effect(done, current.get(node, call.shown), time))
        self._done.sort(key=lambda d: d.node)

    def _take_effect(self, done: LocalUpdate, now: ShownView, time: int) -> LocalUpdate:
        """Check a completed call again on the current local state, then apply it."""
        if done.node in self._cancelled:
            self._cancelled.discard(done.node)
            return done._replace(bottom="departure")
        if now is done.shown:
            return self._commit(done.node, now, done.admission, time)
        decision = carry_over(done.admission.decision, done.shown, now)
        if isinstance(decision, str):
            return done._replace(bottom=decision)
        codes = violations(now.view, decision)
        if codes:
            stale = EXPIRY_CODES.intersection(codes)
            return done._replace(bottom="expiry" if stale else "illegality")
        applied = self._commit(done.node, now, replace(done.admission, decision=decision), time)
        # The record keeps the law's view and output; only the effects use the current state.
        return applied._replace(shown=done.shown, admission=done.admission)

    def _on_tick(self, time: int, events: list[Any]) -> None:
        self._step(self._done)

    def _on_expire(self, time: int, events: list[Any]) -> None:
        self._expired = self._age()

    def _on_deliver(self, time: int, messages: list[Any]) -> None:
        self._delivered = self.transport.hand_over(messages, time)

    def _on_close(self, time: int, events: list[Any]) -> None:
        self._close(time, self._done, self._delivered, self._expired, self._shock)
        self._played += 1
        self._done, self._delivered, self._expired = [], 0, 0
        self._open(time + 1)


def carry_over(decision: Decision, then: ShownView, now: ShownView) -> Decision | str:
    """Translate a decision made on a snapshot into the names of the current view.

    Returns the decision, or the reason why it cannot be translated: "illegality" if a target is
    gone, "expiry" if a claim is.
    """
    handles = _translation(then.handles, now.handles)
    known = _claims(then)
    claims = _translation(known, _claims(now))
    verb, argument = action_argument(decision.task_action)
    action = decision.task_action
    if argument in then.handles:
        if argument not in handles:
            return "illegality"
        action = f"{verb}:{handles[argument]}"
    elif argument in known:
        if argument not in claims:
            return "expiry"
        action = f"{verb}:{claims[argument]}"
    if any(d.channel in then.handles and d.channel not in handles for d in decision.deposits):
        return "illegality"
    named = [d.claim for d in decision.deposits]
    named += [decision.commit.claim] if decision.commit is not None else []
    if any(claim not in claims for claim in named):
        return "expiry"
    deposits = tuple(_rename(d, handles, claims) for d in decision.deposits)
    commit = decision.commit
    if commit is not None:
        commit = Commitment(claims[commit.claim], commit.confidence_bin)
    return Decision(action, decision.response, deposits, commit, decision.execution_intent)


def _claims(shown: ShownView) -> dict[str, str]:
    """Return the claims of one view, each with its world claim."""
    return {name: shown.claims[name] for name in claims_of(shown.view)}


def _translation(then: dict[str, int] | dict[str, str], now: object) -> dict[str, str]:
    assert isinstance(now, dict)
    names = {thing: name for name, thing in now.items()}
    return {name: names[thing] for name, thing in then.items() if thing in names}


def _rename(deposit: Trace, handles: dict[str, str], claims: dict[str, str]) -> Trace:
    return Trace(
        handles.get(deposit.channel, deposit.channel),
        claims[deposit.claim],
        deposit.novelty,
        deposit.support,
        deposit.conflict,
        deposit.ttl,
        deposit.direction,
    )
