"""The legal choices on a view: acts, writes and commitments, each with its numeric ranges.

`admit` checks whether a decision is legal; this module lists the legal ones, by the same rules from
`relations`. Templates and the grammar of constrained decoding are both built from these lists, in
the order of the view's rows, so they describe the same decisions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from waggle.core.relations import committable, reopens, rows, strongest
from waggle.core.schema import (
    BROADCAST,
    MAX_RESPONSE,
    WAIT,
    View,
    action_argument,
    takes_channel,
    takes_claim,
)

CACHED = 4096
"""Size of each cache of writes and commitments; many views allow the same ones."""


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
    """Either exactly 0 or at least 1, since a challenge changes what may be committed."""
    ttl: Range

    @property
    def challenges(self) -> bool:
        """Whether every deposit in these ranges has positive conflict."""
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
    """Whether the response may be any text of legal length, instead of `response`."""


class Social(NamedTuple):
    """The writes and commitments of an act that is not a wait; equal for many views."""

    commits: tuple[Commit, ...]
    """Commitments without a write."""
    writes: tuple[tuple[Write, tuple[Commit, ...]], ...]
    """Writes, each with the commitments that may accompany it."""
    channels: tuple[str, ...]
    fan_out: tuple[str, ...]


def actions(view: View) -> list[str]:
    """Return the legal task actions; verbs with a reference occur once per reference."""
    found = []
    for action in view.contract.actions:
        verb, _ = action_argument(action)
        if takes_channel(action):
            found += [f"{verb}:{port.channel}" for port in view.private.channels]
        elif takes_claim(action):
            found += [f"{verb}:{row.claim}" for row in view.private.claims]
        else:
            found.append(action)
    return found


def silent_actions(view: View) -> list[str]:
    """Return the legal task actions that are neither a wait nor an answer."""
    return [a for a in actions(view) if a not in (WAIT, view.contract.response)]


def responses(view: View) -> list[str]:
    """Return the responses that the view itself offers: the private proposal's, if it has one."""
    offered = view.proposal.response
    return [] if offered is None or len(offered) > MAX_RESPONSE else [offered]


def acts(view: View) -> list[ActOption]:
    """Return the acts that allow writes and commitments."""
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
    """Return the acts that allow none: WAIT, or any silent action with intent WAIT."""
    found = [ActOption(WAIT, intent) for intent in (None, "PRIVATE", "FIELD", "WAIT")]
    return found + [ActOption(action, "WAIT") for action in silent_actions(view)]


def channels(view: View) -> tuple[str, ...]:
    """Return the channels to which a deposit may be written."""
    handles = tuple([port.channel for port in view.private.channels])
    return (*handles, BROADCAST) if view.contract.broadcast else handles


def fan_out(view: View) -> tuple[str, ...]:
    """Return all handles if one decision may write to each of them, else an empty tuple."""
    handles = tuple([port.channel for port in view.private.channels])
    return handles if 1 < len(handles) <= view.contract.deposits else ()


def social(view: View) -> Social:
    """Return the writes and commitments that a view allows."""
    targets, alone = channels(view), commits(view, None)
    backed = [
        # Only a challenge changes what may be committed.
        (write, commits(view, write) if write.challenges else alone)
        for write in (writes(view) if targets else ())
    ]
    return Social(alone, tuple(backed), targets, fan_out(view))


_Bound: TypeAlias = tuple[int, int, int, int]
"""Upper bounds of a write: novelty, support, conflict and lifetime."""


def writes(view: View) -> list[Write]:
    """Return the writes that private evidence or an incident trace backs."""
    if view.contract.deposits == 0:
        return []
    bounds: dict[tuple[str, str | None], list[_Bound]] = {}
    for row in rows(view):
        most = strongest(row, BROADCAST)
        if most.ttl > 0:
            bound = most.novelty, most.support, most.conflict, most.ttl
            bounds.setdefault((most.claim, most.direction), []).append(bound)
    return [
        write
        for (claim, direction), found in bounds.items()
        for write in _within(claim, direction, tuple(found))
    ]


@lru_cache(CACHED)
def _within(claim: str, direction: str | None, bounds: tuple[_Bound, ...]) -> tuple[Write, ...]:
    """Return the writes of a claim that stay within at least one of the bounds."""
    found: list[Write] = []
    for novelty, support, conflict, ttl in _undominated(bounds):
        ranges = Range(0, novelty), Range(0, support)
        quiet = Write(claim, direction, *ranges, Range(0, 0), Range(1, ttl))
        found.append(quiet)
        if conflict:
            found.append(quiet._replace(conflict=Range(1, conflict)))
    return tuple(found)


def _undominated(bounds: tuple[_Bound, ...]) -> list[_Bound]:
    """Drop bounds that lie within another one, so that no write is listed twice."""
    distinct = list(dict.fromkeys(bounds))
    return [
        b
        for b in distinct
        if not any(c != b and all(x <= y for x, y in zip(b, c, strict=True)) for c in distinct)
    ]


def commits(view: View, write: Write | None) -> tuple[Commit, ...]:
    """Return the commitments that may accompany a write, or be made without one."""
    found, held = committable(view), view.commitment
    against = {write.claim} if write is not None and write.challenges else set()
    if held is not None and not reopens(view, against):
        found = {held.claim: found[held.claim]} if held.claim in found else {}
    return tuple([_commit(claim, most) for claim, most in found.items() if claim not in against])


@lru_cache(CACHED)
def _commit(claim: str, most: int) -> Commit:
    return Commit(claim, Range(0, most))
