"""The synchronous engine F: all views of a round are formed from one pre-update state.

    footer = play(world, law, case, order="canonical", sinks=[Memory()])

Per round: counterevidence, views, one batch of decisions, commitments and staged writes, one world
step, decay and expiry, delivery, score. An episode is a generator of request batches: `play`
runs one episode, `play_together` runs many in lockstep, so that small swarms share large batches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from waggle.core.errors import ContractError
from waggle.core.order import Order
from waggle.core.protocols import Act, Case, Decode, Law, Request, Shock, World
from waggle.core.record import FORMAT, Footer, Header, RoundRecord, WriteRecord
from waggle.core.schema import action_argument
from waggle.runtime import commitment
from waggle.runtime.attacks import corrupt
from waggle.runtime.defence import Defence
from waggle.runtime.perturb import Perturbation, Schedule
from waggle.runtime.recorder import Recorder, Sink
from waggle.runtime.repair import Admission, Deciding, ask, decide
from waggle.runtime.staff import Staff
from waggle.runtime.state import ShownView, Swarm
from waggle.runtime.switches import Switches
from waggle.runtime.transport import Transport
from waggle.runtime.views import show_all
from waggle.runtime.worlds import check_world, native_actions, why_no_view

Episode: TypeAlias = Generator[Sequence[Request], Sequence[Decode], Footer]
"""A generator of request batches that is sent the decodes and returns the record's footer."""


class LocalUpdate(NamedTuple):
    """One local update after admission, commitment and staging; `bottom` if it was cancelled."""

    node: int
    shown: ShownView
    admission: Admission
    writes: list[WriteRecord]
    reopened: str | None
    bottom: str | None = None


class Conductor(Protocol):
    """Decides for all nodes of one episode; a stateful law returns it by `conduct(world, case)`."""

    world: World
    """The world to play; it may be wrapped so that frames carry additional data."""

    def decide(
        self, round: int, nodes: Sequence[int], shown: Sequence[ShownView]
    ) -> Sequence[Decode]:
        """Return the decode of every node, in order."""
        ...


Watcher = Callable[[RoundRecord, World], None]
"""Called after every round, for progress and drawing."""


class Engine:
    """The synchronous engine; the event-driven one reuses its state and the steps of a round."""

    name = "sync"

    def __init__(
        self,
        world: World,
        law: Law,
        case: Case,
        *,
        order: Order | None = None,
        switches: Switches | None = None,
        perturbation: Perturbation | None = None,
        defence: Defence | None = None,
        sinks: Sequence[Sink] = (),
        salt: int = 0,
        watch: Watcher | None = None,
        staff: Staff | None = None,
    ) -> None:
        check_world(world, case.substrate)
        conduct = getattr(law, "conduct", None)
        self._conductor: Conductor | None = None if conduct is None else conduct(world, case)
        if self._conductor is not None:
            world = self._conductor.world
        self.world = world
        self.law = law
        self.case = case
        self.order: Order = order or native_order(law)
        self.perturbation = perturbation or Perturbation()
        self.defence = defence or Defence()
        own = switches or native_switches(law, world)
        self.swarm = Swarm(world, case, own, salt, self.defence)
        self.schedule = Schedule(self.perturbation, case.seed, world.keys, world.rounds)
        self.transport = Transport(self.swarm, self.schedule)
        self.recorder = Recorder(self.swarm, list(sinks), self.schedule.byzantine)
        self._salt = salt
        self._watch = watch
        self._shocked = not case.shock
        self._native: Mapping[int, str] = {}
        self._staff = staff
        if staff is not None:
            staff.open(world)

    def play(self) -> Footer:
        """Play the episode to its end and return the record's footer."""
        return drive(self.episode(), self.law)

    def episode(self) -> Episode:
        """Play as a generator of request batches, so that a caller may batch across episodes."""
        self.recorder.header(self.header())
        played = 0
        for round in range(self.world.rounds):
            if self.world.done():
                break
            yield from self._play_round(round)
            played += 1
        return self.recorder.footer(played)

    def header(self) -> Header:
        """Return the header of the episode's record."""
        return Header(
            FORMAT,
            self.case,
            self.law.name,
            self.name,
            self.order,
            self.world.contract,
            self.world.rounds,
            tuple(self.world.keys),
            self._salt,
            msgspec.to_builtins(self.swarm.switches),
            msgspec.to_builtins(self.perturbation),
            {} if self._staff is None else self._staff.about,
            {} if self.defence == Defence() else msgspec.to_builtins(self.defence),
        )

    def _play_round(self, round: int) -> Generator[Sequence[Request], Sequence[Decode], None]:
        shock = self._inject(round)
        nodes = [i for i in self.world.active() if not self.schedule.absent(i, round)]
        shown = self._show(nodes, round)
        deciding = self._decide(nodes, shown, round)
        if self._conductor is None:
            admissions = yield from deciding
        else:
            admissions = _answered(deciding, shown, self._conductor.decide(round, nodes, shown))
        done = [
            self._commit(i, s, a, round) for i, s, a in zip(nodes, shown, admissions, strict=True)
        ]
        self._step(done)
        expired = self._age()
        delivered = self.transport.deliver(round)
        self._close(round, done, delivered, expired, shock)

    def _show(self, nodes: Sequence[int], round: int) -> list[ShownView]:
        """Refresh private proposals, then build the views of the given nodes."""
        done = {} if self._staff is None else self._staff.refresh(self.swarm, nodes, round)
        try:
            found = show_all(self.swarm, nodes, round, self.order)
        except (AttributeError, IndexError, TypeError) as error:
            why = why_no_view(self.swarm, nodes)
            if why:
                raise ContractError(why) from error
            raise
        if done:
            for node, shown in zip(nodes, found, strict=True):
                shown.work = done.get(node)
        return found

    def _inject(self, round: int) -> Shock | None:
        """Call the world's `shock` until counterevidence has been injected."""
        if self._shocked:
            return None
        shock = self.world.shock(round, self.swarm.committed())
        if shock is not None:
            self._shocked = True
            self.schedule.injected(round)
        return shock

    def _decide(self, nodes: Sequence[int], shown: Sequence[ShownView], round: int) -> Deciding:
        """Request the decisions of all nodes, then replace those of Byzantine nodes."""
        admissions = yield from decide([Request(s.view, s.entropy) for s in shown])
        liars, attack = self.schedule.byzantine, self.perturbation.attack
        if not liars:
            return admissions
        draw = self.swarm.aliases.draw
        return [
            replace(a, decision=corrupt(attack, s, a.decision, round, draw)) if i in liars else a
            for i, s, a in zip(nodes, shown, admissions, strict=True)
        ]

    def _commit(self, node: int, shown: ShownView, admission: Admission, round: int) -> LocalUpdate:
        """Apply commitment and communication of one admitted decision."""
        writes = self.transport.stage(node, shown, admission.decision, round)
        state = self.swarm.nodes[node]
        reopened = commitment.update(
            state, shown, admission.decision, self.swarm.switches, round, self.defence.reopening
        )
        return LocalUpdate(node, shown, admission, writes, reopened)

    def _act(self, done: LocalUpdate) -> Act:
        """Translate an admitted decision to world words, for `World.step`."""
        decision = done.admission.decision
        verb, argument = action_argument(decision.task_action)
        target = claim = None
        if argument is not None:
            target, claim = done.shown.handles.get(argument), done.shown.claims.get(argument)
        named = target is not None or claim is not None
        return Act(
            verb if named else decision.task_action,
            target,
            decision.response,
            decision.execution_intent,
            self.swarm.local(done.node),
            claim,
        )

    def _step(self, done: Sequence[LocalUpdate]) -> None:
        """Execute the decisions of all updates that were not cancelled, as native actions."""
        native = self.world.step({d.node: self._act(d) for d in done if d.bottom is None})
        self._native = native_actions(native, self.case.substrate)

    def _age(self) -> int:
        """Advance decay and expiry by one round; return how many traces expired."""
        if not self.swarm.switches.decay:
            return 0
        return sum(n.field.age() for n in self.swarm.nodes.values() if len(n.field))

    def _count_refused(self) -> None:
        """Count the messages whose tags were refused since the last count."""
        if self.transport.provenance is not None:
            refused = self.transport.provenance.refused
            self.recorder.counters.update({f"messages.{k}": v for k, v in refused.items()})
            refused.clear()

    def _close(
        self,
        round: int,
        done: Sequence[LocalUpdate],
        delivered: int,
        expired: int,
        shock: Shock | None,
    ) -> None:
        """Record the round."""
        updates = [self.recorder.update(*d, self._native.get(d.node)) for d in done]
        attempted = self.transport.attempted - self.recorder.counters["messages.attempted"]
        self._count_refused()
        entry = self.recorder.round(
            round, updates, attempted, delivered, expired, shock, self.schedule.suspended(round)
        )
        if self._watch is not None:
            self._watch(entry, self.world)


def _answered(
    deciding: Deciding, shown: Sequence[ShownView], decodes: Sequence[Decode]
) -> list[Admission]:
    """Admit a conductor's decisions; a regeneration request gets the same decode again."""
    known = {s.entropy: decode for s, decode in zip(shown, decodes, strict=True)}
    try:
        asked = next(deciding)
        while True:
            asked = deciding.send([known[request.entropy] for request in asked])
    except StopIteration as end:
        admissions: list[Admission] = end.value
        return admissions


def native_switches(law: Law, world: World) -> Switches:
    """Return the runtime settings a law is defined with, or the formal ones."""
    own = getattr(law, "switches", None)
    return own(world.contract) if own is not None else Switches()


def native_order(law: Law) -> Order:
    """Return the canon order a law was made for, or the paper's."""
    own: Order = getattr(law, "order", "shuffled")
    return own


def drive(episode: Episode, law: Law) -> Footer:
    """Run one episode, with every batch answered by one law."""
    try:
        requests = next(episode)
        while True:
            requests = episode.send(ask(law, requests))
    except StopIteration as end:
        footer: Footer = end.value
        return footer


def play(world: World, law: Law, case: Case, **settings: Any) -> Footer:
    """Play one episode on the synchronous engine; `settings` are those of Engine."""
    return Engine(world, law, case, **settings).play()


def play_together(
    engines: Iterable[Engine], law: Law, width: int = 256
) -> Iterator[tuple[Engine, Footer]]:
    """Play episodes in lockstep under one law and yield each when it ends.

    The requests of all running episodes go to the law as one batch. Laws are independent of batch
    order, so each episode's record is the same as if it were played alone.

    Args:
        engines: the episodes; the next one is started when a batch is smaller than `width`.
        law: the law of all episodes.
        width: minimum number of requests in a batch, as long as there are episodes to start.
    """
    waiting = iter(engines)
    running: list[tuple[Engine, Episode, Sequence[Request]]] = []
    while True:
        while sum(len(r) for _, _, r in running) < width:
            engine = next(waiting, None)
            if engine is None:
                break
            episode = engine.episode()
            try:
                running.append((engine, episode, next(episode)))
            except StopIteration as end:
                yield engine, end.value
        if not running:
            return
        decodes = ask(law, [request for _, _, requests in running for request in requests])
        still: list[tuple[Engine, Episode, Sequence[Request]]] = []
        start = 0
        for engine, episode, requests in running:
            answers = decodes[start : start + len(requests)]
            start += len(requests)
            try:
                still.append((engine, episode, episode.send(answers)))
            except StopIteration as end:
                yield engine, end.value
        running = still
