"""Parse text to a Decision: strict JSON first, then envelope normalization ("Decision schema").

A bad decode is data: `parse` never raises and reports errors as stable codes. Normalization only
strips the envelope of one record (fences, prose, one wrapper object, byte-order mark, white space);
it never repairs the record itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from waggle.core.schema import Commitment, Decision, Trace

MAX_TEXT = 16_384
"""Maximum bytes of a decode; a longer one is refused without parsing."""
MAX_OPEN = 96
"""Maximum opening brackets in one record; bounds its nesting before it is parsed."""
MAX_OBJECTS = 4
"""Maximum objects of a text that are tried in turn, in case surrounding prose has braces."""

CODES: Mapping[str, str] = MappingProxyType(
    {
        "text.size": f"A decode has at most {MAX_TEXT} bytes.",
        "text.encoding": "A decode is UTF-8 text without lone surrogates.",
        "text.none": "A decode holds one JSON object.",
        "json.truncated": "The JSON object is closed.",
        "json.syntax": "The JSON object is well-formed.",
        "json.depth": f"The JSON object opens at most {MAX_OPEN} brackets.",
        "json.number": "Numbers are integers of ordinary size, never NaN or Infinity.",
        "json.duplicate": "No key stands twice in one object.",
        "shape.missing": "task_action, response, deposits and commit are present, "
        "and every deposit and commitment is complete.",
        "shape.unknown": "No key stands in the record that the schema does not name.",
        "shape.type": "Every field has the type the schema gives it.",
    }
)
"""Error codes of texts that are not a record, each with the rule that is broken."""

_read = msgspec.json.Decoder(Decision).decode
_write = msgspec.json.Encoder().encode
_LONG_NUMBER = re.compile("[0-9]{9}")
_FENCE = re.compile(r"```(.*?)```", re.DOTALL)
# An unclosed string matches up to the end of the text, so that scanning stays linear.
_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
SURROGATE = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which a Python string can hold but UTF-8 text cannot."""
_WRAPPERS = frozenset(("decision", "record", "output", "result", "answer", "json"))


class ParseResult(NamedTuple):
    """The result of parsing a text: a decision, or error codes."""

    decision: Decision | None
    codes: tuple[str, ...]
    normalized: bool
    """Whether an envelope was stripped."""
    salvage: Decision | None = None
    """The well-typed parts of the record, the others deleted; the input of projection."""


class _ReadError(Exception):
    """Raised at the first error of a text that cannot be read; a record's errors are collected."""

    @property
    def code(self) -> str:
        return str(self)


def parse(text: str | bytes) -> ParseResult:
    """Parse one decision from a text. Never raises."""
    try:
        plain = _plain_text(text)
    except _ReadError as error:
        return ParseResult(None, (error.code,), False)
    decision = _canonical(plain)
    if decision is not None:
        return ParseResult(decision, (), False, decision)
    if plain[:1] == "{" and plain[-1:] == "}":
        try:
            return _record(_load(plain), False)
        except _ReadError as error:
            if error.code != "json.syntax":
                return ParseResult(None, (error.code,), False)
    return _normalize(plain)


def _plain_text(text: str | bytes) -> str:
    if len(text) > MAX_TEXT:
        raise _ReadError("text.size")
    try:
        plain = text.decode() if isinstance(text, bytes) else text
        if not isinstance(text, bytes) and len(plain.encode()) > MAX_TEXT:
            raise _ReadError("text.size")
    except UnicodeError:
        raise _ReadError("text.encoding") from None
    return plain


def _canonical(plain: str) -> Decision | None:
    """Parse a record in canonical form, as trained laws write it; None for any other text.

    A text that encodes back to the same bytes has every field once, with its type and position.
    """
    data = plain.encode()
    try:
        decision = _read(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    bounded = _opened(plain) <= MAX_OPEN and _LONG_NUMBER.search(plain) is None
    return decision if bounded and _write(decision) == data else None


def _opened(text: str) -> int:
    return text.count("{") + text.count("[")


def _normalize(plain: str) -> ParseResult:
    """Strip the envelope; return the first object that is a record, fenced text first.

    If there is none, return the errors of the first object that is well-formed JSON, if any.
    """
    well_formed: ParseResult | None = None
    read_error = "text.none"
    fenced = (match.group(1) for match in islice(_FENCE.finditer(plain), MAX_OBJECTS))
    for body in (*fenced, plain):
        for text in _objects(body):
            try:
                result = _record(_load(text), True)
            except _ReadError as error:
                if read_error == "text.none":
                    read_error = error.code
                continue
            if not result.codes:
                return result
            well_formed = well_formed or result
    return well_formed or ParseResult(None, (read_error,), True)


def _objects(text: str) -> Iterator[str | None]:
    """Yield the texts of the first few objects; the last is None if it is not closed."""
    start = 0
    for _ in range(MAX_OBJECTS):
        start = text.find("{", start)
        if start < 0:
            return
        body = _object_at(text, start)
        yield body
        if body is None:
            return
        start += len(body)


def _object_at(text: str, start: int) -> str | None:
    """Return the object at `start`, None if it is not closed; brackets in strings do not count."""
    depth = 0
    for match in _STRUCTURE.finditer(text, start):
        token = match.group()
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
            if depth == 0:
                return text[start : match.end()]
    return None


def _load(text: str | None) -> Any:
    """Read the text of one object; None stands for an object that is not closed."""
    if text is None:
        raise _ReadError("json.truncated")
    if _opened(text) > MAX_OPEN:
        raise _ReadError("json.depth")
    try:
        return _READER.decode(text)
    except (ValueError, RecursionError):
        raise _ReadError("json.syntax") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _ReadError("json.duplicate")
    return found


def _refuse_number(text: str) -> Any:
    raise _ReadError("json.number")


def _integer(text: str) -> int:
    if len(text) > 9:
        raise _ReadError("json.number")
    return int(text)


_READER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_refuse_number,
    parse_float=_refuse_number,
    parse_int=_integer,
)


def _record(value: Any, normalized: bool) -> ParseResult:
    """Check a record, without its wrapper object if it has one."""
    if isinstance(value, dict) and len(value) == 1 and "task_action" not in value:
        name, inner = next(iter(value.items()))
        if isinstance(inner, dict) and name.lower() in _WRAPPERS:
            return _record_of(inner, True)
    return _record_of(value, normalized)


def _record_of(value: Any, normalized: bool) -> ParseResult:
    """Check all fields of a record; every check below adds the codes of its errors to `codes`."""
    if not isinstance(value, dict):
        return ParseResult(None, ("shape.type",), normalized)
    codes: list[str] = []
    decision = _decision(value, codes)
    if not codes:
        return ParseResult(decision, (), normalized, decision)
    return ParseResult(None, tuple(dict.fromkeys(codes)), normalized, decision)


_DECISION = frozenset(("task_action", "response", "deposits", "commit"))
_TRACE = frozenset(("channel", "claim", "novelty", "support", "conflict", "ttl"))
_COMMIT = frozenset(("claim", "confidence_bin"))
_INTENT = frozenset(("execution_intent",))
_DIRECTION = frozenset(("direction",))


def _decision(value: dict[str, Any], codes: list[str]) -> Decision | None:
    _keys(value, _DECISION, _INTENT, codes)
    action = _text(value.get("task_action"), codes)
    response = _optional_text(value.get("response"), codes)
    raw = value.get("deposits")
    if not isinstance(raw, list):
        codes.append("shape.type")
        raw = []
    deposits = tuple(t for t in (_trace(item, codes) for item in raw) if t is not None)
    commit = _commit(value.get("commit"), codes)
    intent = _optional_text(value.get("execution_intent"), codes)
    if action is None:
        return None
    return Decision(action, response, deposits, commit, intent)


def _keys(
    value: dict[str, Any], needed: frozenset[str], optional: frozenset[str], codes: list[str]
) -> bool:
    missing, unknown = needed - value.keys(), value.keys() - needed - optional
    if missing:
        codes.append("shape.missing")
    if unknown:
        codes.append("shape.unknown")
    return not missing


def _text(value: Any, codes: list[str]) -> str | None:
    """Return a text; report anything else, but no null once a key of the record is missing.

    A missing task action is read as null, and a missing key is one error.
    """
    if isinstance(value, str):
        if not SURROGATE.search(value):
            return value
        codes.append("text.encoding")
    elif value is not None or "shape.missing" not in codes:
        codes.append("shape.type")
    return None


def _optional_text(value: Any, codes: list[str]) -> str | None:
    return None if value is None else _text(value, codes)


def _bins(value: dict[str, Any], names: tuple[str, ...], codes: list[str]) -> list[int] | None:
    bins = [value[name] for name in names]
    if all(type(item) is int for item in bins):
        return bins
    codes.append("shape.type")
    return None


def _trace(value: Any, codes: list[str]) -> Trace | None:
    """Parse one deposit; return None if any part of it is invalid."""
    if not isinstance(value, dict):
        codes.append("shape.type")
        return None
    if not _keys(value, _TRACE, _DIRECTION, codes):
        return None
    channel, claim = _text(value["channel"], codes), _text(value["claim"], codes)
    direction = _optional_text(value.get("direction"), codes)
    invalid_direction = direction is None and value.get("direction") is not None
    bins = _bins(value, ("novelty", "support", "conflict", "ttl"), codes)
    if channel is None or claim is None or invalid_direction or bins is None:
        return None
    novelty, support, conflict, ttl = bins
    return Trace(channel, claim, novelty, support, conflict, ttl, direction)


def _commit(value: Any, codes: list[str]) -> Commitment | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        codes.append("shape.type")
        return None
    if not _keys(value, _COMMIT, frozenset(), codes):
        return None
    claim, bins = _text(value["claim"], codes), _bins(value, ("confidence_bin",), codes)
    return None if claim is None or bins is None else Commitment(claim, bins[0])
