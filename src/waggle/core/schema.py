"""View, Trace, Decision: the shared bounded interface of Section 3 and "Canonical Local Interface".

A View has exactly six slots and a Decision one canonical shape; field order here is the key order
of canonical JSON. References (handles `h..`, claims `z..`) are opaque and occur only in the fields
that this file designates, so an orbit can rename them without changing task content. All structs
are acyclic by construction, so the garbage collector need not track them (`gc=False`); the cost of
an update therefore does not grow with the size of the swarm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

MAX_BIN = 4
"""Numeric trace components, confidence, coverage and budget use the five bins 0 to 4."""
MAX_TTL = 8
"""A fresh trace lives for eight rounds; TTL is 1 to 8 while it lives."""
MAX_LOT = 15
"""Private lots are 0 to 15."""
MAX_TRACES = 12
"""Maximum number of traces in a view; canonical order decides which are kept."""
MAX_DEPOSITS = 8
"""Upper bound of a contract's `deposits`."""
MAX_ACTION = 48
"""Maximum characters of a task action."""
MAX_RESPONSE = 64
"""Maximum characters of a response."""
MAX_FACT = 40
"""Maximum characters of a text fact in a per-handle or per-claim table."""
MAX_VIEW_BYTES = 16_384
"""Maximum bytes of a serialized view."""

BROADCAST = "*"
"""The channel of a write to every current contact, if the contract allows it."""
WAIT = "WAIT"
"""The task action that is legal everywhere and does nothing."""
CHANNEL_ARGUMENT = "@channel"
"""In a contract's action list, `VERB:@channel` stands for the verb with any incident handle."""
CLAIM_ARGUMENT = "@claim"
"""`VERB:@claim` stands for the verb with any claim of the view's claim table."""

Direction: TypeAlias = Literal["N", "NE", "E", "SE", "S", "SW", "W", "NW", "HERE"]
Intent: TypeAlias = Literal["PRIVATE", "FIELD", "WAIT"]
DIRECTIONS: tuple[Direction, ...] = ("N", "NE", "E", "SE", "S", "SW", "W", "NW", "HERE")
INTENTS: tuple[Intent, ...] = ("PRIVATE", "FIELD", "WAIT")

Json: TypeAlias = "bool | int | float | str | list[Json] | Mapping[str, Json] | None"
Fact: TypeAlias = "int | str"


class Trace(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One finite-lifetime trace on an incident channel; also one deposit of a decision."""

    channel: str
    claim: str
    novelty: int
    support: int
    conflict: int
    ttl: int
    direction: str | None = None


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One row of private evidence: an upper bound on the node's fresh writes.

    Positive conflict means the node's own observation contradicts the claim (verified conflict).
    """

    claim: str
    novelty: int
    support: int
    conflict: int
    direction: str | None = None


class Commitment(msgspec.Struct, frozen=True, gc=False):
    """A local commitment with its confidence bin."""

    claim: str
    confidence_bin: int


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One joint local decision: task action, semantic update, commitment update."""

    task_action: str
    response: str | None
    deposits: tuple[Trace, ...]
    commit: Commitment | None
    execution_intent: str | None = None


class Contract(msgspec.Struct, frozen=True, gc=False):
    """The task contract q, the same text for every node of an episode."""

    task: str
    goal: str
    actions: tuple[str, ...]
    """Legal task actions; `VERB:@channel` takes an incident handle, `VERB:@claim` a claim of the
    claim table. WAIT is always among them."""
    deposits: int = 1
    """How many deposits one decision may hold."""
    broadcast: bool = False
    """Whether a deposit may go to every contact at once."""
    response: str | None = None
    """The only task action with a response, which it must have; None if the task has none."""


class Port(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One row of the per-handle table: a private lot and the substrate's bounded facts."""

    channel: str
    lot: int
    facts: Mapping[str, Fact] = {}


class ClaimRow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One row of the per-claim table: the substrate's bounded facts about one claim."""

    claim: str
    facts: Mapping[str, Fact] = {}


class Private(msgspec.Struct, frozen=True, gc=False):
    """Private task state and evidence p_i."""

    observation: Mapping[str, Json]
    """Free-form task content without references, so orbits do not change it."""
    evidence: tuple[Evidence, ...] = ()
    ready: tuple[str, ...] = ()
    """Claims that pass the fixed readiness test and may be committed with any confidence."""
    coverage: int | None = None
    """Confidence bound of a provisional commitment; None if readiness is required."""
    channels: tuple[Port, ...] = ()
    claims: tuple[ClaimRow, ...] = ()


class Proposal(msgspec.Struct, frozen=True, gc=False):
    """The private proposal w_i: a native action from private evidence, never a social act."""

    action: str
    response: str | None = None
    claim: str | None = None


class View(msgspec.Struct, frozen=True, dict=True):
    """The bounded anonymous local view: exactly six slots (Eq. 1).

    It may also cache its own text, so that it is serialized only once (see `canon`).
    """

    contract: Contract
    private: Private
    proposal: Proposal
    traces: tuple[Trace, ...]
    commitment: Commitment | None
    budget: int


def action_argument(action: str) -> tuple[str, str | None]:
    """Split `VERB:argument` into its parts; the argument is None if there is no colon."""
    verb, colon, argument = action.partition(":")
    return verb, (argument if colon else None)


def takes_channel(action: str) -> bool:
    """Return whether an action of a contract stands for its verb with any incident handle."""
    return action_argument(action)[1] == CHANNEL_ARGUMENT


def takes_claim(action: str) -> bool:
    """Return whether an action of a contract stands for its verb with any listed claim."""
    return action_argument(action)[1] == CLAIM_ARGUMENT


def is_open(action: str) -> bool:
    """Return whether an action of a contract takes a reference of the view."""
    return takes_channel(action) or takes_claim(action)


def plain_actions(contract: Contract) -> list[str]:
    """Return the actions that take no reference, except WAIT, in the contract's order."""
    return [a for a in contract.actions if a != WAIT and not is_open(a)]


def is_wait(decision: Decision) -> bool:
    """Return whether the decision abstains from acting."""
    return decision.task_action == WAIT or decision.execution_intent == "WAIT"


def private_decision(view: View) -> Decision:
    """Return the decision that takes the private proposal and writes nothing."""
    action = view.proposal.action
    answers = action == view.contract.response
    return Decision(action, view.proposal.response if answers else None, (), None)
