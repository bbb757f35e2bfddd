"""Eased views: poised ones with little to read, on which comparing contacts is learned first.

One to three contacts, hardly a further fact, few traces or none, common words; as in poised views
the answer hangs on what one contact says, and the node seldom goes first, where there would be
nothing to compare. Half of the goals are in common English, and most of these say what is asked
(`waggle.corpus.views.goals`).
Invariant: as for linked views, nothing is played and no transfer task is read.
"""

from __future__ import annotations

import msgspec

from waggle.core import orbit
from waggle.core.schema import View
from waggle.corpus.views import goals, linked, poised
from waggle.corpus.views.linked import Words
from waggle.corpus.views.rng import Draw

_TOLD = 15
"""Percent of tasks in which claims carry stances: there is little to compare there."""
_CONTACTS = (1, 1, 2, 2, 3)
"""How many contacts a view has."""
_SAID = 50
"""Percent of tasks whose goal says what is asked."""
_QUIET = 60
"""Percent of views without a trace."""
_BEHIND = 80
"""Percent of views in which the node does not go first."""


def task(draw: Draw) -> Words:
    """Make up a plain task in which no answer names a contact."""
    told = draw.chance(_TOLD)
    while True:
        words = linked.task(Draw(draw.bits(), "task"))
        if words.common and not words.points and words.told == told:
            break
    more = draw.chance(20)
    # As of crowded tasks, nearly all contacts have spoken.
    words = words._replace(ports=words.ports[:more], claims=words.claims[:more], crowded=True)
    return said(draw, words) if draw.chance(_SAID) else words


def said(draw: Draw, words: Words) -> Words:
    """Let the goal of a task, in which no answer names a contact, say what is asked."""
    goal = goals.other(draw, words.spoken, words.told)
    return words._replace(contract=msgspec.structs.replace(words.contract, goal=goal))


def make(draw: Draw, words: Words) -> View:
    """Make up one view of a task."""
    view = linked.named(draw, words, draw.choice(_CONTACTS))
    own = poised.place_of(view.private.observation, words, 0)
    places = [poised.place_of(port.facts, words, -1) for port in view.private.channels]
    if own == 0 and max(places) > 0 and draw.chance(_BEHIND):
        view = poised.swapped(view, words, own, max(places))
    if not words.told:
        view = poised.tipped(draw, words, view)
    if draw.chance(_QUIET):
        view = msgspec.structs.replace(view, traces=())
    return orbit.sample(view, draw.bits()).view(view)
