"""Canonical JSON of views and decisions (Eq. 1, "Canonical Local Interface").

Every view has exactly one text: six slots in fixed key order, free-form mappings sorted by key,
compact separators, and the contract first, so that all prompts of an episode share a prefix.
`check_view` is the recursive schema validation: it rejects unbounded content and forbidden keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from waggle.core.bounds import RESERVED, check_bounds, check_content
from waggle.core.errors import ContractError
from waggle.core.schema import (
    MAX_VIEW_BYTES,
    ClaimRow,
    Commitment,
    Contract,
    Decision,
    Evidence,
    Fact,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)


class _Private(msgspec.Struct, forbid_unknown_fields=True):
    observation: Any
    evidence: tuple[Evidence, ...]
    ready: tuple[str, ...]
    coverage: int | None
    channels: Sequence[Any]
    claims: Sequence[Mapping[str, Fact]]


class _View(msgspec.Struct, forbid_unknown_fields=True):
    contract: Contract
    private: _Private
    worker_proposal: Proposal
    traces: tuple[Trace, ...]
    commitment: Commitment | None
    budget: int


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} is not JSON")


_sorted = msgspec.json.Encoder(order="deterministic", enc_hook=_plain).encode
_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decode_view = msgspec.json.Decoder(_View).decode
_decode_decision = msgspec.json.Decoder(Decision).decode


def _port(port: Port) -> Port | dict[str, Fact]:
    """Return a row of the channel table for the encoder: channel, lot, then facts by key."""
    if not port.facts and type(port.facts) is dict:
        return port  # the encoder omits empty facts
    return {"channel": port.channel, "lot": port.lot, **dict(sorted(port.facts.items()))}


_TEXT = "text"
"""The attribute in which a view caches its serialized text."""


def encode_view(view: View) -> bytes:
    """Return the canonical text of a view.

    Raises:
        ContractError: if the observation holds something that is not JSON.
    """
    kept: bytes | None = view.__dict__.get(_TEXT)
    return _serialize(view) if kept is None else kept


def encode_shown(view: View) -> bytes:
    """Serialize and check a runtime-made view; cache its text for the law and the record.

    Raises:
        ContractError: if the substrate's content is unbounded, forbidden or not JSON.
    """
    data: bytes = view.__dict__.setdefault(_TEXT, _serialize(view))
    _check_size(data)
    check_content(view)
    return data


def _serialize(view: View) -> bytes:
    p = view.private
    try:
        wire = _View(
            view.contract,
            _Private(
                msgspec.Raw(_sorted(p.observation)),
                p.evidence,
                p.ready,
                p.coverage,
                [_port(port) for port in p.channels],
                [{"claim": row.claim, **dict(sorted(row.facts.items()))} for row in p.claims],
            ),
            view.proposal,
            view.traces,
            view.commitment,
            view.budget,
        )
        return _encode(wire)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
        reason = str(error).split("\n")[0]
        raise ContractError(f"view is not JSON ({reason}); put JSON values only") from None


@lru_cache(maxsize=256)
def contract_head(contract: Contract) -> bytes:
    """Return the bytes that every view of an episode starts with: its contract and a comma."""
    return b'{"contract":' + _encode(contract) + b","


def decode_view(data: bytes) -> View:
    """Parse the canonical text of a view, as written by `encode_view`.

    Raises:
        ContractError: if the bytes are not the canonical text of a view.
    """
    try:
        wire = _decode_view(data)
        view = _from_wire(wire)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, TypeError) as error:
        reason = str(error).split("\n")[0]
        raise ContractError(f"not a serialized view ({reason}); use encode_view") from None
    if encode_view(view) != data:
        raise ContractError("view text is not canonical; serialize views with encode_view")
    return view


def _from_wire(wire: _View) -> View:
    p = wire.private
    ports = tuple(
        Port(_text(row, "channel"), _number(row, "lot"), _facts(row)) for row in p.channels
    )
    claims = tuple(ClaimRow(_text(row, "claim"), _facts(row)) for row in p.claims)
    if not isinstance(p.observation, dict):
        raise TypeError("the observation is not an object")
    private = Private(p.observation, p.evidence, p.ready, p.coverage, ports, claims)
    return View(
        wire.contract, private, wire.worker_proposal, wire.traces, wire.commitment, wire.budget
    )


def _text(row: Mapping[str, Fact], key: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is not text")
    return value


def _number(row: Mapping[str, Fact], key: str) -> int:
    value = row[key]
    if not isinstance(value, int):
        raise TypeError(f"{key} is not an integer")
    return value


def _facts(row: Mapping[str, Fact]) -> dict[str, Fact]:
    return {key: value for key, value in row.items() if key not in RESERVED}


def encode_decision(decision: Decision) -> bytes:
    """Serialize a decision: fixed key order, intent and direction only if they are set."""
    return _encode(decision)


def to_decision(data: bytes) -> Decision:
    """Parse the canonical text of a decision, as written by `encode_decision`.

    Raises:
        ContractError: if the bytes are not the canonical text of a decision.
    """
    try:
        decision = _decode_decision(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).split("\n")[0]
        raise ContractError(f"not a serialized decision ({reason}); use encode_decision") from None
    if _encode(decision) != data:
        raise ContractError("decision text is not canonical; serialize with encode_decision")
    return decision


def check_view(view: View, data: bytes | None = None) -> None:
    """Reject a view that is unbounded or holds a forbidden key.

    Args:
        view: the view to check.
        data: its serialization, if the caller already has it; saves encoding it again.

    Raises:
        ContractError: naming the slot, what is wrong and the fix.
    """
    _check_size(encode_view(view) if data is None else data)
    check_bounds(view)


def _check_size(data: bytes) -> None:
    if len(data) > MAX_VIEW_BYTES:
        raise ContractError(f"view has {len(data)} bytes; shrink it to {MAX_VIEW_BYTES}")
