"""Agreement: made-up tasks on graphs in which all should answer alike, and near misses of them.

Views are those of the other tasks on graphs, of every shape; the goal alone says whether all should
answer alike (`waggle.corpus.views.goals` says what was in sight when its phrasings were written).
Nearly half of the tasks are near misses: goals in the same words that ask for something else, so
that a law cannot go by a word or by the shape of the view. Invariant: as for linked views, nothing
is played and no transfer task is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from waggle.core.schema import View
from waggle.corpus.views import eased, goals, linked, poised, relays
from waggle.corpus.views.linked import Words
from waggle.corpus.views.rng import Draw

_ALIKE = 55
"""Percent of tasks in which all should answer alike."""


class Task(NamedTuple):
    """The words of a task and what makes up its views."""

    words: Words
    views: Callable[[Draw, Words], View]


def task(draw: Draw) -> Task:
    """Make up a task of any shape whose goal is one of agreement, or nearly says so."""
    shape = draw.below(6)
    while (made := _shaped(Draw(draw.bits(), "shape"), shape)).words.points:
        pass
    words = made.words
    if not draw.chance(_ALIKE):
        return made._replace(words=eased.said(draw, words))
    contract = msgspec.structs.replace(words.contract, goal=goals.alike(draw, words.spoken))
    return made._replace(words=words._replace(contract=contract))


def make(draw: Draw, task: Task) -> View:
    """Make up one view of a task."""
    return task.views(draw, task.words)


def _shaped(draw: Draw, shape: int) -> Task:
    """Make up a task of one shape."""
    if shape < 2:
        return Task(linked.task(draw, crowded=shape == 1), linked.make)
    if shape == 2:
        return Task(poised.task(draw), poised.make)
    return (
        Task(eased.task(draw), eased.make) if shape == 3 else Task(relays.task(draw), relays.make)
    )
