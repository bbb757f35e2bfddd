"""Repair: from a batch of requests to admitted decisions, with the stage each one reached.

Order of repair: as emitted, envelope-normalized, one regeneration that quotes the validator's
codes, conservative projection, no-communication fallback. Repair may delete content or reuse the
private proposal; it never originates a claim, a deposit, a commitment or a challenge. Invariant:
any text or Decision of a law is data, and the part kept in a record gives the same result in a
replay.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import astuple

from waggle.core.admit import fallback, is_typed, project, violations
from waggle.core.canon import encode_decision, to_decision
from waggle.core.decode import MAX_TEXT, parse
from waggle.core.errors import ContractError
from waggle.core.protocols import Decode, Law, Request, Usage
from waggle.core.record import Stage
from waggle.core.schema import Decision, View
from waggle.plugin_files import raised
from waggle.runtime.watchdog import watched

MAX_RAW = MAX_TEXT + 1
"""Characters of a raw decode kept in the record: one over the limit, so that it stays too long."""
MAX_QUOTED = 4_096
"""Maximum characters of a failed decode that the feedback quotes."""
MAX_COUNT = 10**12
"""Largest count of a usage; keeps the sums of an episode within the range of a record."""
UNWRITTEN = ""
"""Placeholder for a decode that cannot be stored in a record; its code gives the reason."""
FREE = Decode("").usage
"""The usage of laws that report none; it needs no check."""


class Admission(msgspec.Struct, frozen=True, gc=False):
    """One admitted decision with its stage, error codes, raw decodes and usage."""

    decision: Decision
    stage: Stage
    codes: tuple[str, ...]
    """Validator codes of the first decode; empty if it was executable."""
    raw: tuple[str | Decision, ...]
    usage: Usage


class _Checked(msgspec.Struct, frozen=True, gc=False):
    decision: Decision | None
    codes: tuple[str, ...]
    normalized: bool
    raw: str | Decision
    usage: Usage


Deciding: TypeAlias = Generator[Sequence[Request], Sequence[Decode], "list[Admission]"]
"""Yields the batches a law must answer (one, or two with regenerations); returns admissions."""


def decide(requests: Sequence[Request]) -> Deciding:
    """Request decodes for the whole batch, then once more for those that are not executable."""
    if not requests:
        return []
    decodes = yield requests
    first = [_check(r.view, d) for r, d in zip(requests, decodes, strict=True)]
    retry = [k for k, c in enumerate(first) if c.codes]
    again: dict[int, _Checked] = {}
    if retry:
        decodes = yield [_with_feedback(requests[k], first[k]) for k in retry]
        again = {k: _check(requests[k].view, d) for k, d in zip(retry, decodes, strict=True)}
    return [_admit(r.view, first[k], again.get(k)) for k, r in enumerate(requests)]


def ask(law: Law, requests: Sequence[Request]) -> Sequence[Decode]:
    """Let a law answer a batch; require one text or Decision per request, with a valid usage.

    Raises:
        ContractError: for other answers, and for a law that raises StopIteration or SystemExit.
    """
    try:
        decodes = watched(law, requests)
    except (StopIteration, SystemExit) as error:
        # The first would end the generator of an episode, the second the process of a shard.
        raise ContractError(f"law {law.name!r} failed: {raised(error)}; correct it") from error
    if len(decodes) != len(requests):
        raise ContractError(
            f"law {law.name!r} returned {len(decodes)} decodes for {len(requests)} requests; "
            "return exactly one per request, in order"
        )
    if not all(isinstance(decode, Decode) for decode in decodes):
        raise ContractError(
            f"law {law.name!r} returned something else than decodes; wrap each text or decision "
            "in a Decode"
        )
    for decode in decodes:
        if not isinstance(decode.output, str | Decision):
            raise ContractError(
                f"law {law.name!r} returned a Decode of {type(decode.output).__name__}; give it a "
                "text or a Decision"
            )
        if decode.usage is not FREE and not _countable(decode.usage):
            raise ContractError(
                f"law {law.name!r} returned {repr(decode.usage)[:120]} as the usage of a decode; "
                "give a Usage of whole numbers, none below 0"
            )
    return decodes


def _countable(usage: object) -> bool:
    """Return whether a usage can be summed and stored in a record."""
    if not isinstance(usage, Usage):
        return False
    return all(type(count) is int and 0 <= count <= MAX_COUNT for count in astuple(usage))


def _with_feedback(request: Request, checked: _Checked) -> Request:
    previous = checked.raw[:MAX_QUOTED] if isinstance(checked.raw, str) else ""
    return Request(request.view, request.entropy, checked.codes, previous)


def _check(view: View, decode: Decode) -> _Checked:
    output = decode.output
    if isinstance(output, str):
        parsed = parse(output)
        raw = _kept(output)
        if parsed.decision is None:
            return _Checked(parsed.salvage, parsed.codes, parsed.normalized, raw, decode.usage)
        codes = violations(view, parsed.decision)
        return _Checked(parsed.decision, codes, parsed.normalized, raw, decode.usage)
    codes = violations(view, output)
    unwritten = _unwritten(output) if codes else None
    if unwritten is not None:
        return _Checked(None, (unwritten,), False, UNWRITTEN, decode.usage)
    return _Checked(output, codes, False, output, decode.usage)


def _kept(text: str) -> str:
    """Return the part of a text that the record keeps."""
    kept = text[:MAX_RAW]
    try:
        kept.encode()
    except UnicodeError:
        return UNWRITTEN
    return kept


def _unwritten(output: Decision) -> str | None:
    """Return the error code of a Decision object that cannot be serialized, or None."""
    if not is_typed(output):
        return "shape.type"
    try:
        data = encode_decision(output)
        if len(data) > MAX_TEXT:
            return "text.size"
        to_decision(data)
    except UnicodeError:
        return "text.encoding"
    except (ValueError, ContractError):
        return "json.number"
    return None


def _admit(view: View, first: _Checked, again: _Checked | None) -> Admission:
    if again is None:
        assert first.decision is not None
        stage: Stage = "normalized" if first.normalized else "first"
        return Admission(first.decision, stage, (), (first.raw,), first.usage)
    raw, usage = (first.raw, again.raw), _sum(first.usage, again.usage)
    if not again.codes:
        assert again.decision is not None
        return Admission(again.decision, "regenerated", first.codes, raw, usage)
    candidate = again.decision or first.decision
    if candidate is None:
        return Admission(fallback(view), "fallback", first.codes, raw, usage)
    return Admission(project(view, candidate), "projected", first.codes, raw, usage)


def _sum(a: Usage, b: Usage) -> Usage:
    return Usage(
        a.calls + b.calls,
        a.input_tokens + b.input_tokens,
        a.output_tokens + b.output_tokens,
        a.model_steps + b.model_steps,
        a.failures + b.failures,
        a.cost + b.cost,
    )
