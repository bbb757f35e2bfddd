"""A view as a vector of numbers and a decision as five discrete choices, for external learners.

Row order differs between views, so a slot is the position of a row: claims and channels beyond the
slots are left out, and free-form content and facts are hashed. A decision is five choices
(`PARTS`), each with its mask; their combination may still be illegal, and the runtime then repairs
it as it does for any law.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from waggle.core.options import Write, actions, commits, responses, writes
from waggle.core.schema import (
    BROADCAST,
    MAX_BIN,
    MAX_LOT,
    MAX_TRACES,
    MAX_TTL,
    Commitment,
    Decision,
    Fact,
    Json,
    Trace,
    View,
    action_argument,
)

CLAIMS, CHANNELS, ACTIONS = 8, 8, 32
"""Slots for the claims, channels and actions of a view."""
FACTS, CONTENT = 4, 64
"""Numbers into which the facts of a row, and the free-form observation, are hashed."""
INTENTS = (None, "PRIVATE", "FIELD")
PARTS = (1 + ACTIONS, len(INTENTS), 1 + 2 * CLAIMS, 1 + CHANNELS, 1 + CLAIMS)
"""Sizes of a decision's five choices: the action (0: the private proposal), its intent, the claim
to write (0: none; then supporting each claim; then challenging each), the channel (0: all), and the
claim to commit to (0: none)."""
_HEAD = 4
"""Numbers of a view as a whole: budget, coverage, whether it has a commitment, count of traces."""
_CLAIM = 10 + FACTS
"""Numbers of a claim: 1; novelty, support and conflict of own evidence; whether it is ready; the
confidence if committed; whether it is proposed; channels, support and conflict of its traces; the
hashed facts."""
_TRACE = 4
"""Numbers of the best trace about a claim on a channel: novelty, support, conflict, TTL."""
_CHANNEL = 2 + FACTS + CLAIMS * _TRACE
"""Numbers of a channel: 1; the lot; the hashed facts; then its trace about every claim."""
WIDTH = _HEAD + ACTIONS + CLAIMS * _CLAIM + CHANNELS * _CHANNEL + CONTENT
"""Length of the vector of a view: head, proposed action, claims, channels, hashed observation."""

Numbers = NDArray[np.float32]
Mask = tuple[NDArray[np.int8], ...]
SILENT: Mask = tuple(np.eye(1, size, dtype=np.int8)[0] for size in PARTS)
"""The mask of an agent without a choice: only option 0 of each part is legal."""


class Menu(NamedTuple):
    """The options that a view offers, by slot."""

    view: View
    actions: tuple[str, ...]
    claims: tuple[str, ...]
    channels: tuple[str, ...]
    writes: Mapping[int, Write]
    """Option of the third part -> the strongest write that it stands for."""
    commits: Mapping[int, int]
    """Option of the fifth part -> the highest allowed confidence."""

    def mask(self) -> Mask:
        """Return the mask of legal options of each part."""
        legal: tuple[Sequence[int] | range, ...] = (
            [0, *(1 + k for k, name in enumerate(self.actions) if self._sayable(name))],
            range(len(INTENTS)),
            [0, *self.writes],
            [0, *(1 + k for k in range(len(self.channels)))],
            [0, *self.commits],
        )
        masks = tuple(np.zeros(size, np.int8) for size in PARTS)
        for part, choices in zip(masks, legal, strict=True):
            part[list(choices)] = 1
        return masks

    def _sayable(self, action: str) -> bool:
        """Return whether an action needs no response, or the view offers one."""
        return action != self.view.contract.response or bool(responses(self.view))

    def decision(self, choice: Sequence[int]) -> Decision:
        """Return the decision for five choices; a choice that the menu lacks has no effect."""
        action, intent, write, channel, commit = (int(part) for part in choice)
        view, response = self.view, self.view.proposal.response
        said = self.actions[action - 1] if 1 <= action <= len(self.actions) else None
        if said is None or (said == view.contract.response and not responses(view)):
            said = view.proposal.action
        if said != view.contract.response:
            response = None
        deposits: tuple[Trace, ...] = ()
        chosen = self.writes.get(write)
        if chosen is not None:
            targets = self._targets(channel)
            bins = (r.high for r in chosen[2:])
            novelty, support, conflict, ttl = bins
            deposits = tuple(
                Trace(target, chosen.claim, novelty, support, conflict, ttl, chosen.direction)
                for target in targets
            )
        held = None
        if commit in self.commits:
            held = Commitment(self.claims[commit - 1], self.commits[commit])
        meant = INTENTS[intent] if 0 <= intent < len(INTENTS) else None
        return Decision(said, response, deposits, held, meant)

    def _targets(self, channel: int) -> tuple[str, ...]:
        if 1 <= channel <= len(self.channels):
            return (self.channels[channel - 1],)
        if self.view.contract.broadcast:
            return (BROADCAST,)
        return self.channels[: self.view.contract.deposits]


def menu(view: View) -> Menu:
    """Return the menu of a view."""
    offered = sorted(actions(view), key=lambda action: action_argument(action)[1] is not None)
    claims = tuple(dict.fromkeys(_claims(view)))[:CLAIMS]
    slot = {claim: 1 + k for k, claim in enumerate(claims)}
    strongest: dict[int, Write] = {}
    for write in writes(view):
        if write.claim in slot:
            choice = slot[write.claim] + CLAIMS * write.challenges
            if choice not in strongest or write.support.high > strongest[choice].support.high:
                strongest[choice] = write
    allowed = {slot[c.claim]: c.confidence.high for c in commits(view, None) if c.claim in slot}
    channels = tuple(port.channel for port in view.private.channels)[:CHANNELS]
    return Menu(view, tuple(offered[:ACTIONS]), claims, channels, strongest, allowed)


def _claims(view: View) -> Iterator[str]:
    """Yield a view's claims: commitment, ready, evidence, proposal, traces, then table rows."""
    if view.commitment is not None:
        yield view.commitment.claim
    yield from view.private.ready
    yield from (evidence.claim for evidence in view.private.evidence)
    if view.proposal.claim is not None:
        yield view.proposal.claim
    yield from (trace.claim for trace in view.traces)
    yield from (row.claim for row in view.private.claims)


def numbers(offered: Menu) -> Numbers:
    """Return a view as numbers from -1 to 1, in the slots of its menu; empty slots are zeros."""
    view, private = offered.view, offered.view.private
    coverage = -1.0 if private.coverage is None else private.coverage / MAX_BIN
    held = float(view.commitment is not None)
    head = (view.budget / MAX_BIN, coverage, held, len(view.traces) / MAX_TRACES)
    proposed = [float(view.proposal.action == name) for name in offered.actions]
    facts = {row.claim: row.facts for row in private.claims}
    claims: list[float] = []
    for claim in offered.claims:
        claims += (*_claim_numbers(view, claim), *_hashed(facts.get(claim, {}), FACTS))
    channels: list[float] = []
    for port in private.channels[:CHANNELS]:
        traces = [n for claim in offered.claims for n in _trace_numbers(view, port.channel, claim)]
        channels += (1.0, port.lot / MAX_LOT, *_hashed(port.facts, FACTS))
        channels += _padded(traces, CLAIMS * _TRACE)
    flat = (
        *head,
        *_padded(proposed, ACTIONS),
        *_padded(claims, CLAIMS * _CLAIM),
        *_padded(channels, CHANNELS * _CHANNEL),
        *_hashed(private.observation, CONTENT),
    )
    return np.clip(np.asarray(flat, np.float32), -1.0, 1.0)


def _claim_numbers(view: View, claim: str) -> Sequence[float]:
    """Return the numbers of a claim without its facts."""
    own = [e for e in view.private.evidence if e.claim == claim]
    heard = [t for t in view.traces if t.claim == claim]
    held = view.commitment
    return (
        1.0,
        max((e.novelty for e in own), default=0) / MAX_BIN,
        max((e.support for e in own), default=0) / MAX_BIN,
        max((e.conflict for e in own), default=0) / MAX_BIN,
        float(claim in view.private.ready),
        (1 + held.confidence_bin) / (1 + MAX_BIN) if held and held.claim == claim else 0.0,
        float(view.proposal.claim == claim),
        len({t.channel for t in heard}) / CHANNELS,
        sum(t.support for t in heard) / (MAX_BIN * CHANNELS),
        max((t.conflict for t in heard), default=0) / MAX_BIN,
    )


def _trace_numbers(view: View, channel: str, claim: str) -> Sequence[float]:
    traces = [t for t in view.traces if t.channel == channel and t.claim == claim]
    best = max(traces, key=lambda t: (t.support, t.ttl), default=None)
    if best is None:
        return (0.0,) * _TRACE
    bins = (best.novelty / MAX_BIN, best.support / MAX_BIN, best.conflict / MAX_BIN)
    return (*bins, best.ttl / MAX_TTL)


def _padded(values: Sequence[float], size: int) -> list[float]:
    """Append zeros for the empty slots."""
    return [*values, *[0.0] * (size - len(values))]


def _hashed(content: Mapping[str, Json] | Mapping[str, Fact], size: int) -> list[float]:
    """Hash free-form content into `size` sums; a text adds 1 or -1, a number a value between."""
    sums = [0.0] * size
    for path, value in _leaves("", content):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        key = crc32((path if number else f"{path}={value}").encode())
        sign = 1.0 if key & 1 else -1.0
        sums[(key >> 1) % size] += sign * (value / (1 + abs(value)) if number else 1.0)  # type: ignore[operator, arg-type]
    return sums


def _leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{path}/{key}", inner)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _leaves(f"{path}/{place}", inner)
    else:
        yield path, value
