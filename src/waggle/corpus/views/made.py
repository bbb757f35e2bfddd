"""Made views in a row: situations, close calls, spatial ones under a disguise, tasks on graphs.

Views in a row share a contract: made-up tasks are many anyway, and a shared prompt is tokenised
once. Invariant: a stream of views is a pure function of its name; no view is labelled here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from waggle.core.schema import View
from waggle.corpus.views import agreed, eased, linked, poised, relays
from waggle.corpus.views import disguised as disguise
from waggle.corpus.views.frames import Frame
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import SITUATIONS, make

EASY = {"private-only": 40, "unresolved": 40, "wait": 40}
"""Situations that a law learns at once, with the percent of bundles that hold one."""
BUNDLE = sum(EASY.get(name, 100) for name in SITUATIONS)
"""A hundred times the views that a bundle holds in the mean."""
TOGETHER = 2
"""Bundles in a row that have one contract."""
CROWD = 20
"""Contacts in a crowd, at most."""
ALIKE = 10
"""Other views in a row that have one contract."""
CLOSE = {"fresh-evidence": 1, "relay": 2, "precommit-conflict": 1, "synthesis": 2}
"""Situations in which rows compete, with how many views of each a bundle of close calls holds."""
FADING = (0, 30, 60)
"""Percent of traces about to die in a close call: what ranks first often cannot be passed on."""

FrameOf: TypeAlias = Callable[[Draw], Frame | None]
"""Draws a frame of one task."""


def situations(
    salt: int, bundles: int, frames: Callable[[Draw], FrameOf], crowded: int = 0
) -> Iterator[View]:
    """Make views of every class, of the easy ones fewer.

    Args:
        salt: names every draw.
        bundles: how many bundles.
        frames: makes up a task and returns what draws its frames.
        crowded: percent of views with many contacts.
    """
    for bundle in range(bundles):
        if bundle % TOGETHER == 0:
            frame_of = frames(Draw(salt, "task", bundle))
        for name, situation in SITUATIONS.items():
            draw = Draw(salt, "bundle", bundle, name)
            if not draw.chance(EASY.get(name, 100)):
                continue
            frame = frame_of(draw)
            if frame is None:
                continue
            crowd = draw.between(6, CROWD) if draw.chance(crowded) else 0
            view = make(name, frame, draw, crowd=crowd)
            if situation.holds(view):
                yield view


def close(salt: int, bundles: int, frames: Callable[[Draw], FrameOf]) -> Iterator[View]:
    """Make situations in which the right row is not the one that looks best.

    A law that reads the strongest trace and the lifetime of another writes what is not admissible;
    views in which the strongest one dies are rare among plain situations.
    """
    names = [name for name, count in CLOSE.items() for _ in range(count)]
    for bundle in range(bundles):
        if bundle % TOGETHER == 0:
            frame_of = frames(Draw(salt, "task", bundle))
        for place, name in enumerate(names):
            draw = Draw(salt, "close", bundle, place)
            frame = frame_of(draw)
            if frame is None:
                continue
            view = make(name, frame, draw, fading=draw.choice(FADING))
            if SITUATIONS[name].holds(view):
                yield view


def disguised(salt: int, bundles: int) -> Iterator[View]:
    """Make situations in spatial frames under a disguise."""

    def frames(task: Draw) -> FrameOf:
        look = disguise.look(task)
        return lambda draw: disguise.frame(draw, look)

    return situations(salt, bundles, frames, crowded=35)


class _Kind(NamedTuple):
    """What makes up a task of one kind, and views of it; `name` and `tasks` name their draws."""

    name: str
    tasks: str
    task: Callable[[Draw], Any]
    make: Callable[[Draw, Any], View]


_ON_GRAPHS = MappingProxyType(
    {
        "linked": _Kind("linked", "task", linked.task, linked.make),
        "crowded": _Kind("linked", "task", partial(linked.task, crowded=True), linked.make),
        "poised": _Kind("poised", "poised task", poised.task, poised.make),
        "eased": _Kind("eased", "eased task", eased.task, eased.make),
        "relays": _Kind("relays", "relays task", relays.task, relays.make),
        "agreed": _Kind("agreed", "agreed task", agreed.task, agreed.make),
    }
)
ON_GRAPHS = tuple(_ON_GRAPHS)
"""Kinds of made-up tasks on graphs."""


def on_graphs(kind: str, salt: int, count: int) -> Iterator[View]:
    """Make so many views of tasks on graphs.

    Args:
        kind: one of `ON_GRAPHS`.
        salt: names every draw.
        count: how many views.
    """
    name, tasks, make_up, make_view = _ON_GRAPHS[kind]
    for number in range(count):
        if number % ALIKE == 0:
            task = make_up(Draw(salt, tasks, number))
        yield make_view(Draw(salt, name, number), task)
