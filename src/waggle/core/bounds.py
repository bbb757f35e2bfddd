"""Bounds: the recursive schema validation of a view ("Canonical Local Interface").

Every slot is bounded, every reference is well-formed, every trace is on an incident channel, and no
forbidden key occurs at any depth. The contract is checked once, since all nodes share it. Admission
uses the same functions for the numbers and directions of a decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import isfinite

from waggle.core.errors import ContractError
from waggle.core.keys import leak
from waggle.core.naming import claims_of
from waggle.core.protocols import Write
from waggle.core.schema import (
    CHANNEL_ARGUMENT,
    CLAIM_ARGUMENT,
    DIRECTIONS,
    MAX_ACTION,
    MAX_BIN,
    MAX_DEPOSITS,
    MAX_FACT,
    MAX_LOT,
    MAX_RESPONSE,
    MAX_TRACES,
    MAX_TTL,
    WAIT,
    Contract,
    Evidence,
    Fact,
    Json,
    Port,
    Trace,
    View,
    action_argument,
    is_open,
)

MAX_ROWS = 64
"""Maximum rows of any table of a view."""
MAX_FACTS = 16
"""Maximum facts in one row."""
MAX_DEPTH = 12
"""Maximum nesting depth of an observation."""
MAX_KEY = 64
"""Maximum characters of a key; the search for forbidden words is quadratic in this length."""
MAX_INTEGER = 2**53
"""Largest absolute value of an integer in task content; exact in every JSON reader."""
MAX_GOAL = 2_000
"""Maximum characters of a contract's goal text."""

_HANDLE = re.compile(r"h[0-9a-z]{1,3}")
_CLAIM = re.compile(r"z[0-9a-z]{1,4}")
_TEXT = frozenset((str,))
LEGAL_DIRECTIONS = frozenset((None, *DIRECTIONS))
RESERVED = frozenset(("channel", "lot", "claim"))
"""Names that a fact may not have, because they are columns of the tables."""


@lru_cache(maxsize=65536)
def is_handle(text: str) -> bool:
    """Return whether a text has the syntax of a channel handle."""
    return _HANDLE.fullmatch(text) is not None


@lru_cache(maxsize=65536)
def is_claim(text: str) -> bool:
    """Return whether a text has the syntax of a claim alias."""
    return _CLAIM.fullmatch(text) is not None


def check_bounds(view: View) -> None:
    """Reject a view with a slot out of bounds, a broken reference or a forbidden key.

    Raises:
        ContractError: naming the slot, what is wrong and the fix.
    """
    check_contract(view.contract)
    check_content(view)
    private, held = view.private, view.commitment
    handles = {port.channel for port in private.channels}
    if len(handles) != len(private.channels):
        raise ContractError("channels: each handle once")
    for port in private.channels:
        _check_port(port)
    for claim in claims_of(view):
        if not is_claim(claim):
            raise ContractError(f"{claim!r:.40} is not a claim alias; mint it as z[0-9a-z]{{1,4}}")
    if len({row.claim for row in private.claims}) != len(private.claims):
        raise ContractError("claims: each claim once")
    if len(view.traces) > MAX_TRACES:
        raise ContractError(f"view has {len(view.traces)} traces; cut them to {MAX_TRACES}")
    for trace in view.traces:
        if trace.channel not in handles:
            raise ContractError(f"trace on {trace.channel!r:.40}, which is no incident channel")
        check_trace(trace)
    if held is not None and not in_range(held.confidence_bin):
        raise ContractError(f"commitment confidence must be 0 to {MAX_BIN}")
    if not in_range(view.budget):
        raise ContractError(f"budget must be a bin, 0 to {MAX_BIN}")


def check_content(view: View) -> None:
    """Validate the part of a view that comes from the substrate.

    The rest comes from the runtime, which checks traces on arrival and creates all names itself.

    Raises:
        ContractError: naming the slot, what is wrong and the fix.
    """
    private, proposal = view.private, view.proposal
    check_json(private.observation, 0)
    if (
        len(private.channels) > MAX_ROWS
        or len(private.claims) > MAX_ROWS
        or len(private.evidence) > MAX_ROWS
        or len(private.ready) > MAX_ROWS
    ):
        raise ContractError(f"channels, claims, evidence and ready: at most {MAX_ROWS} rows each")
    for port in private.channels:
        if port.facts:
            _check_facts(port.facts, "channel")
    for row in private.claims:
        if row.facts:
            _check_facts(row.facts, "claim")
    for evidence in private.evidence:
        if not in_bins(evidence):
            raise ContractError(f"evidence bins must be 0 to {MAX_BIN}")
        if evidence.direction not in LEGAL_DIRECTIONS:
            raise ContractError(
                f"evidence direction {evidence.direction!r:.40} must be a compass point"
            )
    if len(private.ready) > 1 and len(set(private.ready)) != len(private.ready):
        raise ContractError("ready names a claim twice; let the world's sense() name each once")
    coverage = private.coverage
    if coverage is not None and not (type(coverage) is int and 0 <= coverage <= MAX_BIN):
        raise ContractError(f"coverage must be null or 0 to {MAX_BIN}")
    if len(proposal.action) > MAX_ACTION or len(proposal.response or "") > MAX_RESPONSE:
        raise ContractError(f"proposal too long; keep to {MAX_ACTION}, {MAX_RESPONSE} characters")


def check_trace(trace: Trace | Write) -> None:
    """Reject a trace, or a write that will become one, if its numbers are out of bounds.

    Raises:
        ContractError: saying what is wrong.
    """
    if not in_bins(trace):
        raise ContractError(f"trace bins must be 0 to {MAX_BIN}")
    if not in_range(trace.ttl, MAX_TTL, 1) or trace.direction not in LEGAL_DIRECTIONS:
        raise ContractError(f"trace ttl must be 1 to {MAX_TTL} and direction a compass point")


def in_range(value: object, high: int = MAX_BIN, low: int = 0) -> bool:
    """Return whether a value is an integer in a range, by default the range of a bin."""
    return type(value) is int and low <= value <= high


def in_bins(row: Evidence | Trace | Write) -> bool:
    """Return whether novelty, support and conflict are bins."""
    n, s, x = row.novelty, row.support, row.conflict
    return (
        type(n) is type(s) is type(x) is int
        and 0 <= n <= MAX_BIN
        and 0 <= s <= MAX_BIN
        and 0 <= x <= MAX_BIN
    )


@lru_cache(maxsize=1024)
def check_contract(contract: Contract) -> None:
    """Reject a contract out of bounds; cached, since all nodes of an episode share it.

    Raises:
        ContractError: naming what is wrong and the fix.
    """
    actions = contract.actions
    if not 0 < len(contract.task) <= MAX_FACT or len(contract.goal) > MAX_GOAL:
        raise ContractError(f"contract task or goal too long; keep to {MAX_FACT} and {MAX_GOAL}")
    if WAIT not in actions or len(actions) > MAX_ROWS or len(set(actions)) != len(actions):
        raise ContractError(f"contract actions need {WAIT}, at most {MAX_ROWS}, each once")
    if any(not 0 < len(action) <= MAX_ACTION for action in actions):
        raise ContractError(f"contract action too long; keep it to {MAX_ACTION} characters")
    if any("@" in a and not is_open(a) for a in actions):
        raise ContractError(
            f"write an action argument as VERB:{CHANNEL_ARGUMENT} or VERB:{CLAIM_ARGUMENT}"
        )
    if not in_range(contract.deposits, MAX_DEPOSITS):
        raise ContractError(f"contract deposits must be 0 to {MAX_DEPOSITS}")
    fixed = [action_argument(a)[1] or "" for a in actions]
    if any(is_handle(text) or is_claim(text) for text in fixed):
        raise ContractError("a fixed action argument must not look like a reference; rename it")
    answer = contract.response
    if answer is not None and (answer not in actions or answer == WAIT or "@" in answer):
        raise ContractError(f"answering action {answer!r} must be a plain contract action")


def check_json(value: Json, depth: int = 0) -> None:
    """Reject task content that has a forbidden key at any depth or is not finite JSON.

    Raises:
        ContractError: naming what is wrong and the fix.
    """
    kind = type(value)
    if kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:  # type: ignore[operator]
            raise ContractError("observation holds an integer beyond 2^53; bin it or write text")
    elif kind is str or kind is bool or value is None:
        return
    elif kind is dict or isinstance(value, Mapping):
        _check_keys(value, "observation", depth)  # type: ignore[arg-type]
        for item in value.values():  # type: ignore[union-attr]
            if type(item) is not str:
                check_json(item, depth + 1)
    elif isinstance(value, list | tuple):
        if depth >= MAX_DEPTH:
            raise ContractError(f"observation is nested deeper than {MAX_DEPTH}; flatten it")
        for item in value:
            if type(item) is not str:
                check_json(item, depth + 1)
    elif not (isinstance(value, float) and isfinite(value)):
        raise ContractError(f"observation holds {value!r:.40}; put finite JSON values only")


def _check_keys(mapping: Iterable[str], where: str, depth: int = 0) -> None:
    if depth >= MAX_DEPTH:
        raise ContractError(f"{where} is nested deeper than {MAX_DEPTH}; flatten it")
    keys = tuple(mapping)
    if not _TEXT.issuperset(map(type, keys)):
        raise ContractError(f"{where} has a key that is not text; use text keys")
    if max(map(len, keys), default=0) > MAX_KEY:
        raise ContractError(f"{where} has a key of over {MAX_KEY} characters; shorten it")
    found = leak(keys)
    if found is not None:
        raise ContractError(f"{where} key {found[0]!r:.60} is {found[1]}; remove it from the view")


@lru_cache(maxsize=8192)
def _check_fact_keys(keys: tuple[str, ...], where: str) -> None:
    """Reject invalid fact names; cached, since the rows of a table mostly share them."""
    if len(keys) > MAX_FACTS or not RESERVED.isdisjoint(keys):
        raise ContractError(f"{where} facts: at most {MAX_FACTS}, none named channel, lot or claim")
    _check_keys(keys, where)


def _check_facts(facts: Mapping[str, Fact], where: str) -> None:
    _check_fact_keys(tuple(facts), where)
    for key, value in facts.items():
        if type(value) is int:
            fits = -MAX_INTEGER <= value <= MAX_INTEGER
        else:
            fits = type(value) is str and len(value) <= MAX_FACT
        if not fits:
            raise ContractError(
                f"{where} fact {key!r:.60} must be an integer or text up to {MAX_FACT} characters"
            )


def _check_port(port: Port) -> None:
    if not is_handle(port.channel):
        raise ContractError(f"{port.channel!r:.40} is not a handle; mint it as h[0-9a-z]{{1,3}}")
    if not in_range(port.lot, MAX_LOT):
        raise ContractError(f"lot {port.lot!r:.40} must be 0 to {MAX_LOT}")
