"""Replay: play a record's raw decodes again through world and runtime, and compare everything.

No model runs: `RecordedLaw` returns the recorded decodes. The first difference from the record (in
a view, an admission, a write, a score) is reported with its location.
Invariant: a replay ends with the record or one round after it, whatever horizon its header claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from waggle.core.canon import contract_head, decode_view
from waggle.core.errors import RecordError
from waggle.core.protocols import Decode, Request, Usage, World
from waggle.core.record import EpisodeRecord, Header, RoundRecord, UpdateRecord
from waggle.core.schema import Commitment, Decision, View
from waggle.runtime.defence import Defence
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.repair import MAX_RAW, UNWRITTEN
from waggle.runtime.staff import RecordedStaff
from waggle.runtime.switches import Switches
from waggle.runtime.sync import Engine

UNSEEN = msgspec.Raw(b"null")
"""The view of an update in a record that keeps only measures."""
_LIKE: dict[str, str | Decision] = {
    "text.encoding": "\udfff",
    "text.size": Decision(" " * MAX_RAW, None, (), None),
    "json.number": Decision("", None, (), Commitment("", 10**5000)),
    "shape.type": Decision(0, None, (), None),  # type: ignore[arg-type]
}
"""By code, a substitute for a decode that no record can hold; refused with the same code."""
_HEADER = ("case", "contract", "rounds", "keys", "order", "engine", "worker", "defence")


class Replay(NamedTuple):
    """The result of a replay."""

    same: bool
    difference: str
    """Where the first difference lies; empty if there is none."""
    record: EpisodeRecord
    """The record of the replay."""

    def __str__(self) -> str:
        if not self.same:
            return f"different: {self.difference}"
        updates = sum(len(entry.updates) for entry in self.record.rounds)
        return f"same: {len(self.record.rounds)} rounds, {updates:,} local updates"

    def __repr__(self) -> str:
        return f"Replay({self})"


class _Longer(Exception):
    """Raised when a replay continues after the end of its record."""


class RecordedLaw:
    """A law that returns recorded decodes; the entropy of a request identifies the update."""

    def __init__(self, record: EpisodeRecord) -> None:
        self.name = record.header.law
        self._updates = {u.entropy: u for r in record.rounds for u in r.updates}

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Return the recorded decode of each request, or an empty one if there is none."""
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> Decode:
        update = self._updates.get(request.entropy)
        attempt = 1 if request.feedback else 0
        if update is None or len(update.raw) <= attempt:
            return Decode("")
        raw: Any = update.raw[attempt]
        if raw == UNWRITTEN and not attempt:
            raw = _LIKE.get(update.codes[0] if update.codes else "", UNWRITTEN)
        return Decode(raw, Usage() if attempt else update.usage)


def view_of(header: Header, update: UpdateRecord) -> View:
    """Return the view of an update, with its contract, which the record keeps in the header."""
    return decode_view(contract_head(header.contract) + bytes(update.view)[1:])


def replay(
    record: EpisodeRecord, world: World, watch: Callable[[World], None] | None = None
) -> Replay:
    """Play a record again on a freshly opened world of its case; `watch` is called every round."""
    header = record.header
    memory = Memory()

    def stop(entry: RoundRecord, world: World) -> None:
        if entry.round >= len(record.rounds):
            raise _Longer
        if watch is not None:
            watch(world)

    if header.curves:
        raise RecordError("the record holds curves only; play its case again without --curves")
    if any(update.view == UNSEEN for entry in record.rounds for update in entry.updates):
        raise RecordError("the record holds measures only; play its case again with --keep")
    engine_type = {"sync": Engine, "event": EventEngine}.get(header.engine)
    if engine_type is None:
        raise RecordError(
            f"the record names engine {header.engine!r}; this version has sync, event"
        )
    engine = engine_type(
        world,
        RecordedLaw(record),
        header.case,
        order=header.order,  # type: ignore[arg-type]
        switches=msgspec.convert(header.switches, Switches),
        perturbation=msgspec.convert(header.perturbation, Perturbation),
        defence=msgspec.convert(header.defence, Defence),
        sinks=[memory],
        salt=header.salt,
        watch=stop,
        staff=RecordedStaff(record) if header.worker else None,
    )
    try:
        engine.play()
    except _Longer:
        engine.recorder.footer(len(record.rounds) + 1)
    again = memory.record()
    difference = first_difference(record, again)
    return Replay(not difference, difference, again)


def first_difference(one: EpisodeRecord, two: EpisodeRecord) -> str:
    """Describe the first difference of two records; return an empty string if there is none."""
    for name in _HEADER:
        if getattr(one.header, name) != getattr(two.header, name):
            return f"header {name}: {getattr(one.header, name)!r} / {getattr(two.header, name)!r}"
    for a, b in zip(one.rounds, two.rounds, strict=False):
        found = _round_difference(a, b)
        if found:
            return f"round {a.round}: {found}"
    if len(one.rounds) != len(two.rounds):
        return f"rounds: {len(one.rounds)} / {len(two.rounds)}"
    if one.footer != two.footer:
        return f"footer: {dict(one.footer.scores)!r} / {dict(two.footer.scores)!r}"
    return ""


def _round_difference(a: RoundRecord, b: RoundRecord) -> str:
    for x, y in zip(a.updates, b.updates, strict=False):
        found = _update_difference(x, y)
        if found:
            return f"node {x.node}: {found}"
    for name in ("score", "attempted", "delivered", "expired", "field", "shock", "suspended"):
        if getattr(a, name) != getattr(b, name):
            return f"{name}: {getattr(a, name)!r} / {getattr(b, name)!r}"
    if len(a.updates) != len(b.updates):
        return f"updates: {len(a.updates)} / {len(b.updates)}"
    return ""


def _update_difference(x: UpdateRecord, y: UpdateRecord) -> str:
    for name in UpdateRecord.__struct_fields__:
        one, two = getattr(x, name), getattr(y, name)
        if name == "view":
            one, two = bytes(one), bytes(two)
        if name != "usage" and one != two:
            return f"{name}: {_short(one)} / {_short(two)}"
    return ""


def _short(value: object) -> str:
    text = repr(value if not isinstance(value, Decision) else msgspec.to_builtins(value))
    return text if len(text) <= 120 else text[:117] + "..."
