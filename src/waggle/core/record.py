"""The episode record: the only input of metrics, transitions, reports and replay.

It has one header, one entry per round, which holds one entry per local update, and one footer.
Records are for analysis: unlike views they name nodes and world claims. Field order is file order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from waggle.core.protocols import Case, Shock, Usage
from waggle.core.schema import Contract, Decision

FORMAT = 1
"""Version of the record format."""

Stage: TypeAlias = Literal["first", "normalized", "regenerated", "projected", "fallback"]
STAGES: tuple[Stage, ...] = ("first", "normalized", "regenerated", "projected", "fallback")
EXECUTABLE: tuple[Stage, ...] = STAGES[:2]
"""Stages at which a decision was executable as decoded."""
Cause: TypeAlias = str
"""Why transport suppressed a write; the context safeguards of a substrate add further names."""


class Header(msgspec.Struct, frozen=True, omit_defaults=True, tag="header", tag_field="kind"):
    """The first entry: the settings of the episode."""

    format: int
    case: Case
    law: str
    engine: str
    order: str
    contract: Contract
    rounds: int
    keys: tuple[int, ...]
    """Node i is body keys[i] of the case; the identity unless the swarm was relabelled."""
    salt: int
    """Seeds the opaque aliases; another salt gives other names for the same episode."""
    switches: Mapping[str, Any]
    perturbation: Mapping[str, Any]
    worker: Mapping[str, Any] = {}
    """Name, schedule and options of the private workers; empty if there are none."""
    defence: Mapping[str, Any] = {}
    """The active defences against Byzantine nodes; empty if there are none."""
    curves: bool = False
    """Whether only scores and counts of the rounds were kept, without the local updates."""


class WriteRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One candidate write and its outcome."""

    claim: str
    receivers: tuple[int, ...]
    fresh: bool
    challenge: bool
    cause: Cause | None = None
    """Why it was suppressed; None if it was executed."""
    refresh: bool = False
    """Whether it was executed again after the refresh interval."""


class WorkRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One call of a node's private worker at one update."""

    answer: Any
    """The proposal that the node adopted; None if the call failed or the answer was refused."""
    usage: Usage = Usage()
    """Logical cost of the call, whether it was answered from a cache or not."""


class UpdateRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One local update of one node."""

    node: int
    view: msgspec.Raw
    """The view as the law saw it, as canonical JSON without its contract (see the header)."""
    entropy: int
    """The node's random draw for this update, for sampling laws; it also identifies the update."""
    raw: tuple[str | Decision, ...]
    """The law's outputs: the first decode and, if there was one, the regeneration."""
    decision: Decision
    stage: Stage
    mode: str
    codes: tuple[str, ...] = ()
    """Validator codes of the first decode."""
    writes: tuple[WriteRecord, ...] = ()
    native: str | None = None
    claim: str | None = None
    """World claim of the commitment after this update."""
    confidence: int = 0
    reopened: str | None = None
    """World claim that this update cleared by verified conflict."""
    bottom: str | None = None
    """Event-driven engine: why the completed call was cancelled (departure, expiry, illegality)."""
    usage: Usage = Usage()
    work: WorkRecord | None = None
    """The call of the node's private worker; None if there is no worker or it was not called."""


class FieldMass(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Summed bins of all held traces of one claim, over the whole swarm."""

    novelty: int
    support: int
    conflict: int
    traces: int


class RoundRecord(msgspec.Struct, frozen=True, omit_defaults=True, tag="round", tag_field="kind"):
    """One round of the swarm."""

    round: int
    updates: tuple[UpdateRecord, ...]
    score: Mapping[str, float]
    attempted: int
    """Messages sent in this round, one per receiver."""
    delivered: int
    """Messages that arrived at the end of this round."""
    expired: int = 0
    field: Mapping[str, FieldMass] = {}
    shock: Shock | None = None
    suspended: tuple[int, ...] = ()


class Footer(msgspec.Struct, frozen=True, tag="footer", tag_field="kind"):
    """The last entry: the outcome of the episode; a record without a footer is truncated."""

    rounds: int
    scores: Mapping[str, float]
    counters: Mapping[str, int]


def comparable(counters: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of an episode without the model's steps.

    How many steps a decode takes depends on the batch it is decoded in; its text does not.
    """
    return {name: count for name, count in counters.items() if name != "model_steps"}


class EpisodeRecord(msgspec.Struct, frozen=True):
    """The record of a whole episode, in memory."""

    header: Header
    rounds: tuple[RoundRecord, ...]
    footer: Footer

    @property
    def shock(self) -> Shock | None:
        """The late counterevidence of this episode, if any was injected."""
        return next((r.shock for r in self.rounds if r.shock is not None), None)
