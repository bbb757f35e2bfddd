"""The grammar of a view: the canonical JSON text of its admissible records as a neutral tree.

It is used for constrained decoding and depends on no tokenizer. Every text of the grammar is an
admissible decision in canonical JSON, and every template of `templates` is in it. Equal parts share
one node, so the tree stays small and is walked as a graph. Many views allow the same writes and
commitments, so nodes are cached across views.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from waggle.core.forms import Alternatives, GrammarNode, IntRange, Literal, Sequence, Text
from waggle.core.options import (
    CACHED,
    Commit,
    Range,
    Social,
    Write,
    actions,
    channels,
    fan_out,
    responses,
    silent_actions,
    social,
)
from waggle.core.relations import rows
from waggle.core.schema import (
    INTENTS,
    MAX_BIN,
    MAX_RESPONSE,
    MAX_TTL,
    WAIT,
    Commitment,
    Decision,
    Trace,
    View,
)

_OPEN = Literal('{"task_action":"')
_IDLE = Literal('[],"commit":null')
_ANY = Text(MAX_RESPONSE)
_CLOSE = Sequence((Literal("}"),), common=True)
"""The end of every record, a node that all grammars share."""


def grammar(view: View) -> GrammarNode:
    """Return the grammar of a view's admissible records."""
    answer, behind = view.contract.response, _behind(social(view))
    silent = tuple(silent_actions(view))
    if answer is None:
        return _record(silent, behind)
    offered = [Literal(_inside(text)) for text in responses(view)]
    body = Alternatives((*offered, _ANY)) if offered else _ANY
    spoken = Sequence((_speaking(answer), body, behind.answer))
    return Sequence((_OPEN, Alternatives((*_quiet(silent, behind), spoken)), _CLOSE))


def longest(view: View) -> int:
    """Return an upper bound on the bytes of a text of a view's grammar, without a free response.

    It is the size of a record made of the longest parts; the grammar itself is not built.
    """
    known = rows(view)
    claim = max([*view.private.ready, *[row.claim for row in known]], key=_size, default="")
    direction = max([row.direction or "" for row in known], key=len, default="") or None
    targets = channels(view)
    count = len(fan_out(view)) or min(1, len(targets))
    bins = MAX_BIN, MAX_BIN, MAX_BIN, MAX_TTL
    deposit = Trace(max(targets, key=_size, default=""), claim, *bins, direction)
    action = max([WAIT, *actions(view)], key=_size)
    response = max(["null", *responses(view)], key=_size)
    commit = Commitment(claim, MAX_BIN)
    return _size(Decision(action, response, (deposit,) * count, commit, max(INTENTS, key=len)))


def _size(value: object) -> int:
    """Return an upper bound on the bytes of a value in JSON with non-ASCII escaped."""
    found = msgspec.json.encode(value)
    return len(found) if found.isascii() else len(found) + 2 * sum(byte > 127 for byte in found)


@lru_cache(CACHED)
def _record(silent: tuple[str, ...], behind: _Successor) -> GrammarNode:
    """Return the records of a view whose contract has no answering action."""
    return Sequence((_OPEN, _one_of([*_quiet(silent, behind)]), _CLOSE), common=True)


@lru_cache(CACHED)
def _speaking(answer: str) -> Literal:
    return Literal(_inside(answer) + '","response":"')


class _Successor:
    """The parts that may follow an act; compared by identity, as equal options share one object."""

    def __init__(self, allowed: Social) -> None:
        found = _social(allowed)
        idle = Sequence((_IDLE, _intent("PRIVATE", "FIELD", "WAIT")))
        self.silent = _one_of([idle, *found])
        idle = Sequence((_IDLE, _intent("PRIVATE", "FIELD")))
        self.answer = Sequence((Literal('","deposits":'), _one_of([idle, *found])), common=True)


@lru_cache(CACHED)
def _behind(allowed: Social) -> _Successor:
    return _Successor(allowed)


@lru_cache(CACHED)
def _quiet(silent: tuple[str, ...], behind: _Successor) -> tuple[GrammarNode, ...]:
    """Return the acts without a response, with everything that may follow them."""
    if not silent:
        return (_waiting(),)
    head = Literal('","response":null,"deposits":')
    return _waiting(), Sequence((_texts(silent), head, behind.silent), common=True)


def _inside(text: str) -> str:
    """Return a text as JSON escapes it between quotes."""
    return msgspec.json.encode(text).decode()[1:-1]


def _texts(texts: tuple[str, ...]) -> GrammarNode:
    return _one_of([Literal(_inside(text)) for text in texts])


def _one_of(options: list[GrammarNode]) -> GrammarNode:
    return options[0] if len(options) == 1 else Alternatives(tuple(options))


@lru_cache(CACHED)
def _bins(name: str, bins: Range) -> GrammarNode:
    return Sequence((Literal(f',"{name}":'), IntRange(bins.low, bins.high)))


@lru_cache(CACHED)
def _intent(*names: str) -> GrammarNode:
    given = [Literal(f',"execution_intent":"{name}"') for name in names]
    return Alternatives((Literal(""), *given))


@lru_cache(1)
def _waiting() -> GrammarNode:
    text = Literal(f'{WAIT}","response":null,"deposits":[],"commit":null')
    return Sequence((text, _intent("PRIVATE", "FIELD", "WAIT")), common=True)


@lru_cache(CACHED)
def _commit(options: tuple[Commit, ...], optional: bool) -> GrammarNode:
    found: list[GrammarNode] = [Literal("null")] if optional else []
    for claim, bins in options:
        head = Literal(f'{{"claim":"{claim}"')
        found.append(Sequence((head, _bins("confidence_bin", bins), Literal("}"))))
    return _one_of(found)


def _social(allowed: Social) -> list[GrammarNode]:
    """Return what may follow an act: a write, a commitment or both."""
    found: list[GrammarNode] = []
    if allowed.commits:
        commit = _commit(allowed.commits, False)
        found.append(Sequence((Literal('[],"commit":'), commit, _intent("PRIVATE", "FIELD"))))
    if allowed.writes:
        head = Sequence((Literal('[{"channel":"'), _texts(allowed.channels)))
        found.append(Sequence((head, _one_of([_single(*pair) for pair in allowed.writes]))))
    if allowed.writes and allowed.fan_out:
        found.append(_one_of([_fan_out(allowed.fan_out, *pair) for pair in allowed.writes]))
    return found


@lru_cache(CACHED)
def _single(write: Write, options: tuple[Commit, ...]) -> GrammarNode:
    """Return the rest of one deposit after its channel, and what may follow it."""
    return Sequence((_body(write), _end(options)), common=True)


@lru_cache(CACHED)
def _end(options: tuple[Commit, ...]) -> GrammarNode:
    commit = _commit(options, True)
    return Sequence((Literal('],"commit":'), commit, _intent("PRIVATE", "FIELD")))


@lru_cache(CACHED)
def _body(write: Write) -> GrammarNode:
    """Return the rest of one deposit after its channel."""
    direction = "" if write.direction is None else f',"direction":"{write.direction}"'
    return Sequence(
        (
            Literal(f'","claim":"{write.claim}"'),
            _bins("novelty", write.novelty),
            _bins("support", write.support),
            _bins("conflict", write.conflict),
            _bins("ttl", write.ttl),
            Literal(direction + "}"),
        )
    )


@lru_cache(CACHED)
def _fan_out(handles: tuple[str, ...], write: Write, options: tuple[Commit, ...]) -> GrammarNode:
    """Return one write to every handle; the bins may differ per handle within the ranges."""
    parts: list[GrammarNode] = []
    for i, channel in enumerate(handles):
        parts += [Literal(("," if i else "[") + f'{{"channel":"{channel}'), _body(write)]
    return Sequence((*parts, _end(options)), common=True)
