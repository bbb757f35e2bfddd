"""Counters and round entries, which an engine records while it plays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import fsum
from typing import Protocol

import msgspec

from waggle.core.canon import contract_head
from waggle.core.modes import mode
from waggle.core.protocols import Shock, Usage
from waggle.core.record import (
    EpisodeRecord,
    FieldMass,
    Footer,
    Header,
    RoundRecord,
    UpdateRecord,
    WorkRecord,
    WriteRecord,
)
from waggle.runtime.repair import FREE, Admission
from waggle.runtime.state import ShownView, Swarm
from waggle.runtime.worlds import named_scores


class Sink(Protocol):
    """The destination of a record's entries."""

    def header(self, header: Header) -> None:
        """Start the record."""
        ...

    def round(self, entry: RoundRecord) -> None:
        """Append one round."""
        ...

    def footer(self, footer: Footer) -> None:
        """Finish the record."""
        ...


class Memory:
    """A sink that keeps the record in memory."""

    def __init__(self) -> None:
        self._header: Header | None = None
        self._rounds: list[RoundRecord] = []
        self._footer: Footer | None = None

    def header(self, header: Header) -> None:
        """Start the record."""
        self._header = header

    def round(self, entry: RoundRecord) -> None:
        """Append one round."""
        self._rounds.append(entry)

    def footer(self, footer: Footer) -> None:
        """Finish the record."""
        self._footer = footer

    def record(self) -> EpisodeRecord:
        """Return the finished record."""
        assert self._header is not None and self._footer is not None
        return EpisodeRecord(self._header, tuple(self._rounds), self._footer)


class Recorder:
    """Turns the events of an episode into record entries and counters."""

    def __init__(
        self, swarm: Swarm, sinks: list[Sink], liars: frozenset[int] = frozenset()
    ) -> None:
        self._swarm = swarm
        self._liars = liars
        self._sinks = sinks
        self._strip = len(contract_head(swarm.world.contract))
        self._counters: Counter[str] = Counter()
        self._noted: list[str] = []
        self.staffed = False
        """Whether private workers are counted."""

    def header(self, header: Header) -> None:
        """Start the record."""
        self.staffed = bool(header.worker)
        for sink in self._sinks:
            sink.header(header)

    def update(
        self,
        node: int,
        shown: ShownView,
        admission: Admission,
        writes: list[WriteRecord],
        reopened: str | None,
        bottom: str | None,
        native: str | None,
    ) -> UpdateRecord:
        """Record one local update, after its commitment update."""
        state = self._swarm.nodes[node]
        entry = UpdateRecord(
            node,
            msgspec.Raw(b"{" + shown.data[self._strip :]),
            shown.entropy,
            admission.raw,
            admission.decision,
            admission.stage,
            mode(shown.view, admission.decision),
            admission.codes,
            tuple(writes),
            native,
            state.claim,
            state.confidence,
            reopened,
            bottom,
            admission.usage,
            shown.work,
        )
        self._count(entry)
        return entry

    def _count(self, update: UpdateRecord) -> None:
        """Note the names of the counters that an update increments."""
        note = self._noted.append
        note("updates")
        note("stage." + update.stage)
        note("mode." + update.mode)
        for write in update.writes:
            note("writes.candidate")
            if write.cause is None:
                note("writes.executed")
                if write.refresh:
                    note("writes.refreshed")
            else:
                note("writes.suppressed." + write.cause)
        if update.reopened is not None:
            note("reopened")
        if update.bottom is not None:
            note("bottom." + update.bottom)
        if update.usage is not FREE:
            self._count_usage(update.usage)
        if self.staffed:
            self._count_work(update.work)

    @property
    def counters(self) -> Counter[str]:
        """The counters; pending notes are added on access."""
        self.add_up()
        return self._counters

    def add_up(self) -> None:
        """Add the pending notes to the counters; a large swarm makes many notes."""
        self._counters.update(self._noted)
        self._noted.clear()

    def _count_usage(self, usage: Usage) -> None:
        counters = self._counters
        if usage.calls:
            counters["calls"] += usage.calls
            counters["tokens.input"] += usage.input_tokens
            counters["tokens.output"] += usage.output_tokens
            counters["model_steps"] += usage.model_steps
        if usage.failures:
            counters["failures"] += usage.failures
        if usage.cost:
            counters["cost"] += usage.cost

    def _count_work(self, work: WorkRecord | None) -> None:
        counters = self._counters
        if work is None:
            counters["worker.reused"] += 1
            return
        counters["worker.calls"] += work.usage.calls
        counters["worker.tokens.input"] += work.usage.input_tokens
        counters["worker.tokens.output"] += work.usage.output_tokens
        counters["worker.failures"] += work.usage.failures
        if work.usage.cost:
            counters["worker.cost"] += work.usage.cost
        if work.answer is None and not work.usage.failures:
            counters["worker.refused"] += 1

    def round(
        self,
        round: int,
        updates: list[UpdateRecord],
        attempted: int,
        delivered: int,
        expired: int,
        shock: Shock | None,
        suspended: tuple[int, ...],
        field: Mapping[str, FieldMass] | None = None,
    ) -> RoundRecord:
        """Record one round; `field` is given if the traces are held elsewhere."""
        self.counters["messages.attempted"] += attempted
        self.counters["messages.delivered"] += delivered
        self.counters["expired"] += expired
        entry = RoundRecord(
            round,
            tuple(updates),
            self._scores(),
            attempted,
            delivered,
            expired,
            self.field_mass() if field is None else field,
            shock,
            suspended,
        )
        for sink in self._sinks:
            sink.round(entry)
        return entry

    def _scores(self) -> dict[str, float]:
        return named_scores(self._swarm.world.score(), self._swarm.case.substrate)

    def field_mass(self) -> dict[str, FieldMass]:
        """Return the summed bins of all traces that are held here, by claim."""
        mass: dict[str, list[int]] = {}
        for node in self._swarm.nodes.values():
            for held in node.field.traces():
                cell = mass.setdefault(held.claim, [0, 0, 0, 0])
                cell[0] += held.novelty
                cell[1] += held.support
                cell[2] += held.conflict
                cell[3] += 1
        return {claim: FieldMass(*mass[claim]) for claim in sorted(mass)}

    def footer(self, rounds: int) -> Footer:
        """Finish the record."""
        counters = dict(sorted(self.counters.items()))
        footer = Footer(rounds, {**self._scores(), **self._honest()}, counters)
        for sink in self._sinks:
            sink.footer(footer)
        return footer

    def _honest(self) -> dict[str, float]:
        """Return the mean share of the honest nodes, if some lie and the world has shares."""
        world = self._swarm.world
        share = getattr(world, "share", None)
        if share is None or not self._liars:
            return {}
        own = [share(node) for node in range(world.n) if node not in self._liars]
        return {} if not own or None in own else {"honest": fsum(own) / len(own)}
