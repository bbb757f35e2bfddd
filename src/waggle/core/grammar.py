"""The grammar of a view: the canonical JSON text of its admissible records as a neutral tree.

For constrained decoding; independent of any tokenizer. Every text of the grammar is an admissible
decision in canonical JSON, and every template of `templates` is in it. Nodes are shared where their
text is, so the tree stays small: walk it as a graph. Views allow much the same writes and
commitments, so what is made of one is kept for the next.
"""

from __future__ import annotations

from functools import lru_cache

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
from waggle.core.schema import MAX_RESPONSE, WAIT, View

KEPT = 4096
"""Pieces of each kind that are kept."""
_CLOSE = Sequence((Literal("}"),), common=True)
"""The end of every record, one for all."""


def grammar(view: View) -> GrammarNode:
    """Return the grammar of a view's admissible records."""
    answer = view.contract.response
    silent = [a for a in actions(view) if a not in (WAIT, answer)]
    branches = [_waiting()]
    social = _social(view)
    if silent:
        idle = Sequence((Literal('[],"commit":null'), _intent("PRIVATE", "FIELD", "WAIT")))
        head = Literal('","response":null,"deposits":')
        branches.append(Sequence((_texts(silent), head, _one_of([idle, *social]))))
    if answer is not None:
        idle = Sequence((Literal('[],"commit":null'), _intent("PRIVATE", "FIELD")))
        offered = [Literal(_inside(text)) for text in responses(view)]
        head = Literal(_inside(answer) + '","response":"')
        body = _one_of([*offered, Text(MAX_RESPONSE)])
        tail = _one_of([idle, *social])
        branches.append(Sequence((head, body, Literal('","deposits":'), tail)))
    return Sequence((Literal('{"task_action":"'), _one_of(branches), _CLOSE))


def _inside(text: str) -> str:
    """Escape a text as it stands between the quotes of a JSON string."""
    return msgspec.json.encode(text).decode()[1:-1]


def _texts(texts: list[str]) -> GrammarNode:
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
    return Sequence((text, _intent("PRIVATE", "FIELD", "WAIT")))


@lru_cache(KEPT)
def _commit(options: tuple[Commit, ...], optional: bool) -> GrammarNode:
    found: list[GrammarNode] = [Literal("null")] if optional else []
    for claim, bins in options:
        head = Literal(f'{{"claim":"{claim}"')
        found.append(Sequence((head, _bins("confidence_bin", bins), Literal("}"))))
    return _one_of(found)


def _social(view: View) -> list[GrammarNode]:
    """What may follow an act that is not a wait, other than nothing at all."""
    found: list[GrammarNode] = []
    intent = _intent("PRIVATE", "FIELD")
    alone = tuple(commits(view, None))
    if alone:
        found.append(Sequence((Literal('[],"commit":'), _commit(alone, False), intent)))
    backed, targets = writes(view), channels(view)
    if not backed or not targets:
        return found
    offered = [tuple(commits(view, write)) for write in backed]
    single = [_single(write, commit) for write, commit in zip(backed, offered, strict=True)]
    head = Sequence((Literal('[{"channel":"'), _texts(targets)))
    found.append(Sequence((head, _one_of(single))))
    everyone = tuple(port.channel for port in view.private.channels)
    if 1 < len(everyone) <= view.contract.deposits:
        pairs = zip(backed, offered, strict=True)
        found.append(_one_of([_fan(everyone, write, commit) for write, commit in pairs]))
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
