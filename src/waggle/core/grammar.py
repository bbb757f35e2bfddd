"""The grammar of a view: the canonical JSON text of its admissible records as a neutral tree.

For constrained decoding; independent of any tokenizer. Every text of the grammar is an admissible
decision in canonical JSON, and every template of `templates` is in it. Nodes are shared where their
text is, so the tree stays small: walk it as a graph. Views allow much the same writes and
commitments, so what is made of one is kept for the next.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from waggle.core.forms import (
    Alternatives,
    GrammarNode,
    IntRange,
    Literal,
    Sequence,
    Text,
)
from waggle.core.options import Commit, Range, Write, actions, channels, commits, responses, writes
from waggle.core.schema import (
    INTENTS,
    MAX_BIN,
    MAX_RESPONSE,
    MAX_TTL,
    WAIT,
    Commitment,
    Decision,
    Evidence,
    Trace,
    View,
)

KEPT = 4096
"""Pieces of each kind that are kept."""
_OPEN = Literal('{"task_action":"')
_IDLE = Literal('[],"commit":null')
_ANY = Text(MAX_RESPONSE)
_CLOSE = Sequence((Literal("}"),), common=True)
"""The end of every record, one for all."""


class _Allowed(NamedTuple):
    """What a view allows beyond its act: equal for many views, whose grammars then share it."""

    alone: tuple[Commit, ...]
    """Commitments without a write."""
    backed: tuple[tuple[Write, tuple[Commit, ...]], ...]
    """Writes, each with the commitments that may go with it."""
    targets: tuple[str, ...]
    fan: tuple[str, ...]
    """All channels, where one write may go to every one of them."""


def grammar(view: View) -> GrammarNode:
    """Return the grammar of a view's admissible records."""
    answer, behind = view.contract.response, _behind(_allowed(view))
    silent = tuple([a for a in actions(view) if a not in (WAIT, answer)])
    if answer is None:
        return _record(silent, behind)
    offered = [Literal(_inside(text)) for text in responses(view)]
    body = Alternatives((*offered, _ANY)) if offered else _ANY
    spoken = Sequence((_speaking(answer), body, behind.answer))
    return Sequence((_OPEN, Alternatives((*_quiet(silent, behind), spoken)), _CLOSE))


def longest(view: View) -> int:
    """Return bytes that no text of a view's grammar exceeds, without making the grammar.

    A free response aside. It is the size of a record that says the longest of everything.
    """
    known: list[Evidence | Trace] = [*view.private.evidence, *view.traces]
    claim = max([*view.private.ready, *[row.claim for row in known]], key=_size, default="")
    way = max([row.direction or "" for row in known], key=len, default="") or None
    targets, ports = channels(view), len(view.private.channels)
    count = ports if 1 < ports <= view.contract.deposits else min(1, len(targets))
    bins = MAX_BIN, MAX_BIN, MAX_BIN, MAX_TTL
    deposit = Trace(max(targets, key=_size, default=""), claim, *bins, way)
    action = max([WAIT, *actions(view)], key=_size)
    response = max(["null", *responses(view)], key=_size)
    commit = Commitment(claim, MAX_BIN)
    return _size(Decision(action, response, (deposit,) * count, commit, max(INTENTS, key=len)))


def _size(value: object) -> int:
    """Return the bytes of a value in JSON, all of them ASCII."""
    found = msgspec.json.encode(value)
    return len(found) if found.isascii() else len(found) + 2 * sum(byte > 127 for byte in found)


@lru_cache(KEPT)
def _record(silent: tuple[str, ...], behind: _Behind) -> GrammarNode:
    """All records of a view without responses."""
    return Sequence((_OPEN, _one_of([*_quiet(silent, behind)]), _CLOSE), common=True)


@lru_cache(KEPT)
def _speaking(answer: str) -> Literal:
    return Literal(_inside(answer) + '","response":"')


def _allowed(view: View) -> _Allowed:
    alone, targets = tuple(commits(view, None)), tuple(channels(view))
    backed = [
        # Only a challenge changes what may be committed to.
        (write, tuple(commits(view, write)) if write.challenges else alone)
        for write in (writes(view) if targets else ())
    ]
    everyone = tuple([port.channel for port in view.private.channels])
    fan = everyone if 1 < len(everyone) <= view.contract.deposits else ()
    return _Allowed(alone, tuple(backed), targets, fan)


class _Behind:
    """What may follow an act, by what is allowed; told apart by identity."""

    def __init__(self, social: list[GrammarNode]) -> None:
        idle = Sequence((_IDLE, _intent("PRIVATE", "FIELD", "WAIT")))
        self.silent = _one_of([idle, *social])
        idle = Sequence((_IDLE, _intent("PRIVATE", "FIELD")))
        self.answer = Sequence((Literal('","deposits":'), _one_of([idle, *social])), common=True)


@lru_cache(KEPT)
def _behind(allowed: _Allowed) -> _Behind:
    return _Behind(_social(allowed))


@lru_cache(KEPT)
def _quiet(silent: tuple[str, ...], behind: _Behind) -> tuple[GrammarNode, ...]:
    """Acts that say nothing, with all that may follow them."""
    if not silent:
        return (_waiting(),)
    head = Literal('","response":null,"deposits":')
    return _waiting(), Sequence((_texts(silent), head, behind.silent), common=True)


def _inside(text: str) -> str:
    """Escape a text as it stands between the quotes of a JSON string."""
    return msgspec.json.encode(text).decode()[1:-1]


def _texts(texts: tuple[str, ...]) -> GrammarNode:
    return _one_of([Literal(_inside(text)) for text in texts])


def _one_of(options: list[GrammarNode]) -> GrammarNode:
    return options[0] if len(options) == 1 else Alternatives(tuple(options))


@lru_cache(KEPT)
def _bins(name: str, bins: Range) -> GrammarNode:
    return Sequence((Literal(f',"{name}":'), IntRange(bins.low, bins.high)))


@lru_cache(KEPT)
def _intent(*names: str) -> GrammarNode:
    given = [Literal(f',"execution_intent":"{name}"') for name in names]
    return Alternatives((Literal(""), *given))


@lru_cache(1)
def _waiting() -> GrammarNode:
    text = Literal(f'{WAIT}","response":null,"deposits":[],"commit":null')
    return Sequence((text, _intent("PRIVATE", "FIELD", "WAIT")), common=True)


@lru_cache(KEPT)
def _commit(options: tuple[Commit, ...], optional: bool) -> GrammarNode:
    found: list[GrammarNode] = [Literal("null")] if optional else []
    for claim, bins in options:
        head = Literal(f'{{"claim":"{claim}"')
        found.append(Sequence((head, _bins("confidence_bin", bins), Literal("}"))))
    return _one_of(found)


def _social(allowed: _Allowed) -> list[GrammarNode]:
    """What may follow an act that is not a wait, other than nothing at all."""
    found: list[GrammarNode] = []
    if allowed.alone:
        commit = _commit(allowed.alone, False)
        found.append(Sequence((Literal('[],"commit":'), commit, _intent("PRIVATE", "FIELD"))))
    if allowed.backed:
        head = Sequence((Literal('[{"channel":"'), _texts(allowed.targets)))
        found.append(Sequence((head, _one_of([_single(*pair) for pair in allowed.backed]))))
    if allowed.backed and allowed.fan:
        found.append(_one_of([_fan(allowed.fan, *pair) for pair in allowed.backed]))
    return found


@lru_cache(KEPT)
def _single(write: Write, options: tuple[Commit, ...]) -> GrammarNode:
    """One deposit behind its channel, and what may follow it."""
    return Sequence((_body(write), _end(options)), common=True)


@lru_cache(KEPT)
def _end(options: tuple[Commit, ...]) -> GrammarNode:
    commit = _commit(options, True)
    return Sequence((Literal('],"commit":'), commit, _intent("PRIVATE", "FIELD")))


@lru_cache(KEPT)
def _body(write: Write) -> GrammarNode:
    """One deposit behind its channel."""
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


@lru_cache(KEPT)
def _fan(everyone: tuple[str, ...], write: Write, options: tuple[Commit, ...]) -> GrammarNode:
    """One write to every channel; a text may give each channel its own bins within the ranges."""
    parts: list[GrammarNode] = []
    for i, channel in enumerate(everyone):
        parts += [Literal(("," if i else "[") + f'{{"channel":"{channel}'), _body(write)]
    return Sequence((*parts, _end(options)), common=True)
