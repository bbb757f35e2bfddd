"""Relayed views: where claims carry stances, as such views look late, when all have told all.

Whoever does not go first passes on the claim that does, by one of several traces of it. Each has
been under way for some rounds, over some hops, and may have been old when it was passed on, so
that strength and lifetime do not follow from each other: to pass one on, a law has to find the
claim, then keep to one row. Often the same contacts tell of other claims, as strong or stronger.
Invariant: as for linked views, nothing is played and no transfer task is read.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from waggle.core import orbit
from waggle.core.schema import MAX_BIN, MAX_TRACES, MAX_TTL, Trace, View
from waggle.corpus.views import eased, linked, poised
from waggle.corpus.views.linked import Words
from waggle.corpus.views.rng import Draw

_SAID = 50
"""Percent of tasks whose goal says what is asked."""
_FIRST = 20
"""Percent of views in which the node is made to go first, besides those in which it does."""
_AGREED = 70
"""Percent of views in which claims carry what their holders stated."""
_SPREAD = (50, 80, 95, 100)
"""Percent of contacts that tell of the claim that goes first, in one view."""
_LATE = (0, 0, 0, 1, 1, 2, 3, 4, 5)
"""Rounds since word of most claims came, in one view."""


def task(draw: Draw) -> Words:
    """Make up a task in which claims carry stances, with further facts on every row."""
    while (words := poised.task(Draw(draw.bits(), "relays"), told=100)).points:
        pass
    return eased.said(draw, words) if draw.chance(_SAID) else words


def make(draw: Draw, words: Words) -> View:
    """Make up one view of a task."""
    view = linked.named(draw, words)
    own = poised.place_of(view.private.observation, words, 0)
    if own and draw.chance(_FIRST):
        view = poised.swapped(view, words, own, 0)
    if draw.chance(_AGREED):
        view = poised.agreed(view, words)
    traces = draw.some(list(_gossip(draw, words, view)), MAX_TRACES)
    view = poised.levelled(draw, words, msgspec.structs.replace(view, traces=tuple(traces)))
    return orbit.sample(view, draw.bits()).view(view)


def _gossip(draw: Draw, words: Words, view: View) -> Iterator[Trace]:
    """Let contacts that spoke tell of the claim that goes first and of some others."""
    rows = view.private.claims
    first = [row.claim for row in rows if poised.place_of(row.facts, words, -1) == 0]
    others = [row.claim for row in rows if row.claim not in first]
    spread, late = draw.choice(_SPREAD), draw.choice(_LATE)
    for port in view.private.channels:
        if words.stance not in port.facts:
            continue
        if draw.chance(spread):
            yield from (_worn(draw, port.channel, claim, late) for claim in first)
        for claim in draw.some(others, draw.choice((0, 1, 1, 2, 2, 3))):
            yield _worn(draw, port.channel, claim, 0 if draw.chance(25) else late)


def _worn(draw: Draw, channel: str, claim: str, late: int) -> Trace:
    """Make up word that has been under way: aged where it lies, and before it was passed on."""
    hops = draw.choice((0, 0, 1, 1, 1, 2, 3))
    age = late + draw.choice((0, 0, 0, 1, 1, 2))
    lost = age + (draw.choice((0, 0, 1, 2)) if hops else 0)
    support = MAX_BIN if draw.chance(85) else draw.between(1, MAX_BIN)
    return Trace(
        channel, claim, max(0, MAX_BIN - lost), max(0, support - lost // 2), 0,
        max(1, MAX_TTL - lost - hops),
    )  # fmt: skip
