"""Transport: suppression, staging, messages in flight, delivery.

A candidate write is suppressed for one named cause or executed; an executed write is one message
per receiver. Writes staged in a round become incident evidence only after that round's update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from waggle.core.bounds import check_trace
from waggle.core.protocols import Write
from waggle.core.record import WriteRecord
from waggle.core.relations import hides_conflict, is_fresh
from waggle.core.schema import BROADCAST, Decision, Trace
from waggle.runtime.defence import Provenance, Tag
from waggle.runtime.perturb import Schedule
from waggle.runtime.state import ShownView, Swarm


class Message(NamedTuple):
    """A write in flight, with its payload."""

    sent: int
    place: int
    """Position among the deposits of its decision."""
    write: Write
    payload: object
    tag: Tag | None = None


Post = Callable[[Message, int | None], None]
"""Takes a message and the round at whose end it arrives, or None if it is lost."""


class Transport:
    """The messages of one episode that are in flight, by the round at whose end they arrive."""

    def __init__(self, swarm: Swarm, schedule: Schedule, post: Post | None = None) -> None:
        self._swarm = swarm
        self._schedule = schedule
        self._post = post or self._keep
        self._under_way: dict[int, list[Message]] = {}
        refresh = swarm.switches.refresh
        self._refresh = swarm.world.refresh if refresh is None else refresh
        self.attempted = 0
        world = swarm.world
        self.provenance: Provenance | None = None
        if swarm.defence.provenance:
            exclusive = world.contract.response is not None
            self.provenance = Provenance(swarm.case.seed, world.keys, exclusive)
        self._contradicts = (
            getattr(world, "contradicts", None) if swarm.defence.reputation else None
        )

    def stage(
        self, node: int, shown: ShownView, decision: Decision, round: int
    ) -> list[WriteRecord]:
        """Suppress or send the deposits of one admitted decision."""
        if not decision.deposits:
            return []
        return [
            self._stage_one(node, shown, deposit, round, index)
            for index, deposit in enumerate(decision.deposits)
        ]

    def _stage_one(
        self, node: int, shown: ShownView, deposit: Trace, round: int, index: int
    ) -> WriteRecord:
        claim = shown.claims[deposit.claim]
        fresh = is_fresh(shown.view, deposit)
        if deposit.channel == BROADCAST:
            receivers = tuple(shown.handles.values())
        else:
            receivers = (shown.handles[deposit.channel],)
        writes = [
            Write(
                node, j, claim, deposit.novelty, deposit.support, deposit.conflict, deposit.ttl,
                deposit.direction, fresh,
            )
            for j in receivers
        ]  # fmt: skip
        cause = self._cause(shown, writes, fresh)
        if cause is None and not fresh and hides_conflict(shown.view, deposit):
            cause = "hidden_conflict"
        refresh = False
        if cause is None:
            due, refresh = self._due(node, writes, round)
            if due:
                self._send(due, round, index)
                return WriteRecord(
                    claim, tuple(w.receiver for w in due), fresh, deposit.conflict > 0, None,
                    refresh,
                )  # fmt: skip
            cause = "duplicate"
        return WriteRecord(claim, receivers, fresh, deposit.conflict > 0, cause)

    def _cause(self, shown: ShownView, writes: list[Write], fresh: bool) -> str | None:
        """Return why a write is suppressed regardless of earlier writes, or None."""
        if not writes:
            return "no_contact"
        write = writes[0]
        if write.conflict and write.claim not in shown.refuted:
            return "unverified"
        if not fresh and write.claim not in [t.claim for t in shown.held]:
            return "missing"
        if write.ttl < 1:
            return "lifetime"
        if write.novelty + write.support + write.conflict == 0:
            return "zero_mass"
        return self._swarm.world.withhold(write)

    def _due(self, node: int, writes: list[Write], round: int) -> tuple[list[Write], bool]:
        """Return the writes whose local fingerprint is new or may be refreshed."""
        if self._swarm.switches.repeats:
            return writes, False
        seen, fingerprint = self._swarm.nodes[node].seen, self._swarm.world.fingerprint
        due, marks, refresh = [], [], False
        for write in writes:
            mark = fingerprint(write)
            last = seen.get(mark)
            if last is not None and (self._refresh is None or round - last < self._refresh):
                continue
            refresh = refresh or last is not None
            due.append(write)
            marks.append(mark)
        for mark in marks:
            seen[mark] = round
        return due, refresh

    def _send(self, writes: list[Write], round: int, index: int) -> None:
        self.attempted += len(writes)
        for write in writes:
            message = Message(round, index, write, self._swarm.world.payload(write))
            if self.provenance is not None:
                held = self._swarm.nodes[write.sender].field.traces()
                message = message._replace(tag=self.provenance.tag(write, held, round))
            arrival = self._schedule.arrival(write.sender, write.receiver, round, index)
            self._post(message, arrival)

    def _keep(self, message: Message, arrival: int | None) -> None:
        """Keep a message until the round at whose end it arrives; a lost one is not kept."""
        if arrival is not None:
            self._under_way.setdefault(arrival, []).append(message)

    def deliver(self, round: int) -> int:
        """Deliver the messages that arrive at the end of a round; return how many were received."""
        return self.hand_over(self._under_way.pop(round, []), round)

    def hand_over(self, messages: list[Message], round: int) -> int:
        """Hand messages to their receivers; return how many were received.

        Messages sent together are ordered by hidden keys, so that a relabelled swarm receives them
        in the same order.
        """
        world = self._swarm.world
        keys, present = world.keys, set(world.active())
        messages.sort(
            key=lambda m: (m.sent, m.place, -m.tag.born if m.tag else 0, keys[m.write.sender])
        )
        count = 0
        for message in messages:
            receiver = message.write.receiver
            if receiver not in present or self._schedule.absent(receiver, round):
                continue
            count += self._hand_over(message)
        return count

    def _hand_over(self, message: Message) -> bool:
        """Hand one message to its receiver; return whether it was received.

        If frames carry data, an outdated statement is not stored, but its data are.
        """
        world, proof, tag = self._swarm.world, self.provenance, message.tag
        field = self._swarm.nodes[message.write.receiver].field
        fault = None if proof is None else proof.fault(message.write, tag, field.traces())
        if fault is not None and not (fault == "outdated" and world.snapshots):
            return False
        write = world.receive(message.write, message.payload)
        if write is None:
            return False
        if fault is None:
            if proof is not None and tag is not None:
                field.drop(proof.replaced(write, tag, field.traces()))
            check_trace(write)
            field.put(write)
        self._doubt(write, message.payload)
        return True

    def _doubt(self, write: Write, payload: object) -> None:
        """Note a doubt against a channel if the payload of its frame contradicts the write."""
        if self._contradicts is None or not self._contradicts(write, payload):
            return
        state = self._swarm.nodes[write.receiver]
        name = state.handles.get(write.sender)
        if name is not None:
            state.doubts.note(name, write.claim)
