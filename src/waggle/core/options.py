"""What a view leaves open to a law: acts, writes and commitments, each with its numeric ranges.

The admission rules of `admit`, read the other way round: not whether a decision is legal but which
ones are. Templates and the grammar of constrained decoding are both built from these lists, in the
order of the view's rows, so they say the same thing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from waggle.core.relations import is_verified
from waggle.core.schema import (
    BROADCAST,
    CHANNEL_ARGUMENT,
    MAX_BIN,
    MAX_RESPONSE,
    MAX_TTL,
    WAIT,
    View,
)

KEPT = 4096
"""Writes and commitments that are kept: views allow much the same ones."""


class Range(NamedTuple):
    """An inclusive range of bins."""

    low: int
    high: int


class Write(NamedTuple):
    """A write that a view allows, on any of its channels: one claim, one direction, four ranges."""

    claim: str
    direction: str | None
    novelty: Range
    support: Range
    conflict: Range
    """Either exactly 0 or from 1 up, since a challenge changes what may be committed."""
    ttl: Range

    @property
    def challenges(self) -> bool:
        """Whether every instance has positive conflict."""
        return self.conflict.low > 0


class Commit(NamedTuple):
    """A commitment that a view allows."""

    claim: str
    confidence: Range


class ActOption(NamedTuple):
    """A task action with its intent and response."""

    action: str
    intent: str | None
    response: str | None = None
    free: bool = False
    """Whether the response is any text up to its bound, instead of `response`."""


def actions(view: View) -> list[str]:
    """Return the legal task actions, verbs that take a channel with every incident handle."""
    found = []
    for action in view.contract.actions:
        verb, colon, argument = action.partition(":")
        if colon and argument == CHANNEL_ARGUMENT:
            found += [f"{verb}:{port.channel}" for port in view.private.channels]
        else:
            found.append(action)
    return found


def responses(view: View) -> list[str]:
    """Return the responses that the view itself offers: the private proposal's, if it has one."""
    offered = view.proposal.response
    return [] if offered is None or len(offered) > MAX_RESPONSE else [offered]


def acts(view: View) -> list[ActOption]:
    """Return the acts that may write and commit."""
    found = []
    for action in actions(view):
        if action == WAIT:
            continue
        for intent in (None, "PRIVATE", "FIELD"):
            if action == view.contract.response:
                found += [ActOption(action, intent, text) for text in responses(view)]
                found.append(ActOption(action, intent, None, free=True))
            else:
                found.append(ActOption(action, intent))
    return found


def waits(view: View) -> list[ActOption]:
    """Return the acts that may not: waiting, or any silent action with the intent to wait."""
    found = [ActOption(WAIT, intent) for intent in (None, "PRIVATE", "FIELD", "WAIT")]
    silent = (a for a in actions(view) if a not in (WAIT, view.contract.response))
    return found + [ActOption(action, "WAIT") for action in silent]


def channels(view: View) -> list[str]:
    """Return where a deposit may go."""
    found = [port.channel for port in view.private.channels]
    return [*found, BROADCAST] if view.contract.broadcast else found


_Bound: TypeAlias = tuple[int, int, int, int]
"""The most that a write may say: novelty, support, conflict and lifetime."""


def _undominated(bounds: tuple[_Bound, ...]) -> list[_Bound]:
    """Drop bounds that another one contains, so that no write is listed twice for nothing."""
    distinct = list(dict.fromkeys(bounds))
    return [
        b
        for b in distinct
        if not any(c != b and all(x <= y for x, y in zip(b, c, strict=True)) for c in distinct)
    ]


def writes(view: View) -> list[Write]:
    """Return the writes that private evidence or an incident trace backs."""
    if view.contract.deposits == 0:
        return []
    bounds: dict[tuple[str, str | None], list[_Bound]] = {}
    for e in view.private.evidence:
        bound = e.novelty, e.support, e.conflict, MAX_TTL
        bounds.setdefault((e.claim, e.direction), []).append(bound)
    for t in view.traces:
        if t.ttl > 1:
            bound = t.novelty, t.support, t.conflict, t.ttl - 1
            bounds.setdefault((t.claim, t.direction), []).append(bound)
    return [
        write
        for (claim, direction), found in bounds.items()
        for write in _within(claim, direction, tuple(found))
    ]


@lru_cache(KEPT)
def _within(claim: str, direction: str | None, bounds: tuple[_Bound, ...]) -> tuple[Write, ...]:
    """Return the writes of a claim that stay within one of some bounds."""
    found: list[Write] = []
    for novelty, support, conflict, ttl in _undominated(bounds):
        ranges = Range(0, novelty), Range(0, support)
        quiet = Write(claim, direction, *ranges, Range(0, 0), Range(1, ttl))
        found.append(quiet)
        if conflict:
            found.append(quiet._replace(conflict=Range(1, conflict)))
    return tuple(found)


@lru_cache(KEPT)
def _commit(claim: str, most: int) -> Commit:
    return Commit(claim, Range(0, most))


def commits(view: View, write: Write | None) -> list[Commit]:
    """Return the commitments that may go with a write, or with none."""
    private, held = view.private, view.commitment
    found = dict.fromkeys(private.ready, MAX_BIN)
    if private.coverage is not None:
        known = [row.claim for row in private.evidence] + [t.claim for t in view.traces]
        for claim in known:
            found.setdefault(claim, private.coverage)
    challenged = write.claim if write is not None and write.challenges else None
    if challenged is not None:
        found.pop(challenged, None)
    if held is not None and not (challenged == held.claim and is_verified(view, held.claim)):
        found = {held.claim: found[held.claim]} if held.claim in found else {}
    return [_commit(claim, most) for claim, most in found.items()]
