"""The eight local-situation classes of the curriculum ("Decision loss, corpus, and split ...").

Each class has a generator that fills a scene, with many ties and near-ties at every threshold
(adjacent bins, TTL 1 and 2, coverage 0 and 1, support at the gate), and a predicate that recognises
its views. Classes describe inputs; they are not the six derived modes, and no label is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from waggle.core.relations import is_verified, refuted, relay_ttl
from waggle.core.schema import MAX_BIN, MAX_TTL, WAIT, Commitment, View
from waggle.corpus.views.frames import Frame, Scene
from waggle.corpus.views.rng import Draw

EASY = {"private-only": 40, "unresolved": 40, "wait": 40}
"""Situations that are easily learned, with the percent of bundles that contain one."""
PER_TASK = 2
"""Consecutive bundles of one task; their shared prompt is tokenised once."""
CROWD = 20
"""Maximum contacts of a crowded view."""
CLOSE = {"fresh-evidence": 1, "relay": 2, "precommit-conflict": 1, "synthesis": 2}
"""Situations in which rows compete, with the number of each per bundle of close calls."""
_DYING = (0, 30, 60)
"""Percentages of dying traces in close calls: the best one often cannot be relayed."""

FrameOf: TypeAlias = Callable[[Draw], Frame | None]
"""Callable that draws a frame of one task."""


class Situation(NamedTuple):
    """A class: its scene generator, its predicate on views, and the fewest ports it needs."""

    fill: Callable[[Scene], None]
    holds: Callable[[View], bool]
    ports: int = 1


def make(name: str, frame: Frame, draw: Draw, *, crowd: int = 0, fading: int = 0) -> View:
    """Generate one view of a class in a frame.

    Args:
        name: the class.
        frame: the task side.
        draw: the random stream.
        crowd: number of contacts, instead of a few.
        fading: percent of traces that are made to expire soon.
    """
    situation = SITUATIONS[name]
    ports = crowd or draw.between(situation.ports, draw.choice((3, 3, 4, 6)))
    scene = Scene(frame, draw, ports)
    situation.fill(scene)
    if crowd:
        scene.echo(draw.between(0, crowd))
    if fading:
        scene.fade(fading)
    return scene.view()


def _near(draw: Draw, bin: int) -> int:
    """Return a bin that differs from the given one by at most 1."""
    return min(MAX_BIN, max(0, bin + draw.between(-1, 1)))


def _all_dying(view: View) -> bool:
    """Return whether no trace can be relayed."""
    return not any(map(relay_ttl, view.traces))


def _is_idle(view: View) -> bool:
    """Return whether there is nothing to write, relay or commit."""
    return not view.private.evidence and not view.private.ready and _all_dying(view)


def _private_only(scene: Scene) -> None:
    """Add nothing usable: no evidence, no commitment event; at most dying traces."""
    scene.distract(3, ttl=1)


def _is_private_only(view: View) -> bool:
    return view.proposal.action != WAIT and view.commitment is None and _is_idle(view)


def _unresolved(scene: Scene) -> None:
    """Add inconclusive traces: too little support, or directions and claims that disagree."""
    draw = scene.draw
    claims = [scene.claim() for _ in range(draw.between(1, 3))]
    for _ in range(draw.between(1, 6)):
        claim, port = draw.choice(claims), scene.port()
        scene.heard(claim, port, 0, draw.between(0, 2), draw.choice((0, 0, 0, 1, 2)), 1)
    if draw.chance(25):
        scene.commitment = Commitment(draw.choice(claims), draw.between(1, MAX_BIN))


def _is_unresolved(view: View) -> bool:
    return bool(view.traces) and not view.private.ready and _all_dying(view) and not refuted(view)


def _fresh(scene: Scene) -> None:
    """Add own evidence that no trace mentions, with older traces."""
    draw = scene.draw
    for _ in range(draw.choice((1, 1, 2, 3))):
        claim = scene.claim()
        novelty = MAX_BIN if draw.chance(70) else draw.between(1, 3)
        scene.own(claim, novelty, draw.between(1, MAX_BIN))
    if scene.frame.provisional:
        scene.coverage = draw.between(0, 3)
        if draw.chance(60):
            scene.propose("z1", answer=draw.chance(20))
    scene.distract(draw.choice((0, 2, 4, 8)), support=2, novelty=3)
    if draw.chance(20):
        scene.commitment = Commitment("z1", draw.between(0, 3))


def _is_fresh_evidence(view: View) -> bool:
    heard = {t.claim for t in view.traces}
    fresh = any(e.novelty > 0 and e.claim not in heard for e in view.private.evidence)
    return fresh and not refuted(view)


def _relay(scene: Scene) -> None:
    """Add useful traces, equal or nearly so, of which one or two are the best."""
    draw = scene.draw
    support, novelty = draw.between(1, MAX_BIN), draw.between(1, MAX_BIN)
    for _ in range(draw.choice((1, 2, 2, 3, 5))):
        claim, port = scene.claim(), scene.port()
        bins = _near(draw, novelty), _near(draw, support), 0, draw.choice((2, 2, 3, 5, MAX_TTL))
        scene.heard(claim, port, *bins)
    scene.distract(draw.choice((0, 2, 5)), ttl=2)
    if scene.frame.provisional:
        scene.coverage = draw.choice((0, 0, 1, 2))
    if draw.chance(30):
        scene.own(scene.claim(), draw.between(0, 1), draw.between(0, 1))
    if draw.chance(15):
        scene.commitment = Commitment(scene.traces[0].claim, draw.between(0, MAX_BIN))


def _is_relay_situation(view: View) -> bool:
    return (
        any(relay_ttl(t) and t.conflict == 0 for t in view.traces)
        and len(view.private.channels) > 1
        and not refuted(view)
        and not view.private.ready
    )


def _precommit_conflict(scene: Scene) -> None:
    """Add own counterevidence to a claim that neighbours support and the node does not hold."""
    draw = scene.draw
    wrong = scene.claim()
    for port in range(draw.between(1, len(scene.ports))):
        bins = draw.between(0, 4), draw.between(1, 4), 0, draw.between(1, MAX_TTL)
        scene.heard(wrong, port, *bins)
    scene.own(wrong, draw.between(2, 4), 0, draw.between(1, MAX_BIN))
    _alternative(scene)
    scene.distract(draw.choice((0, 2, 4)))


def _alternative(scene: Scene) -> None:
    """Add own evidence for another claim in two of three draws; sometimes it is ready."""
    draw = scene.draw
    if not draw.chance(66):
        return
    right = scene.claim()
    scene.own(right, MAX_BIN, draw.between(1, MAX_BIN))
    if draw.chance(40):
        scene.ready.append(right)
    if scene.frame.provisional:
        scene.coverage = draw.between(0, MAX_BIN)
        scene.propose(right, answer=draw.chance(30))


def _is_precommit_conflict(view: View) -> bool:
    heard = {t.claim for t in view.traces}
    return bool(refuted(view) & heard) and not _is_reopening(view)


def _reopening(scene: Scene) -> None:
    """Add own counterevidence to the held claim."""
    draw = scene.draw
    held = scene.claim()
    scene.commitment = Commitment(held, draw.between(0, MAX_BIN))
    scene.own(held, draw.between(1, 4), 0, draw.between(1, MAX_BIN))
    for port in range(draw.between(0, len(scene.ports))):
        strength = draw.between(0, 3), draw.between(0, 4), draw.choice((0, 0, 1, 3))
        scene.heard(held, port, *strength, draw.between(1, MAX_TTL))
    _alternative(scene)
    scene.distract(draw.choice((0, 2, 4)))


def _is_reopening(view: View) -> bool:
    return view.commitment is not None and is_verified(view, view.commitment.claim)


def _synthesis(scene: Scene) -> None:
    """Add a ready claim, sometimes two that are nearly equal; nothing contradicts it."""
    draw = scene.draw
    ready = [scene.claim() for _ in range(draw.choice((1, 1, 1, 2)))]
    support = draw.between(2, MAX_BIN)
    for claim in ready:
        for port in range(draw.between(1, len(scene.ports))):
            bins = draw.between(0, 3), _near(draw, support), 0, draw.between(1, MAX_TTL)
            scene.heard(claim, port, *bins)
        if draw.chance(50):
            scene.own(claim, draw.between(0, 4), _near(draw, support))
    scene.ready += ready
    if scene.frame.provisional:
        scene.coverage = MAX_BIN
    if scene.frame.contract.response is not None:
        scene.propose(ready[0], answer=draw.chance(70))
    if draw.chance(25):
        scene.commitment = Commitment(ready[0], draw.between(0, 3))
    scene.distract(draw.choice((0, 2, 4)))
    scene.budget = draw.between(0, MAX_BIN)


def _is_synthesis(view: View) -> bool:
    return bool(view.private.ready) and not refuted(view)


def _wait(scene: Scene) -> None:
    """Propose to wait, and add nothing that warrants an action."""
    draw = scene.draw
    scene.proposal = WAIT
    scene.distract(draw.choice((0, 0, 3)), ttl=1)
    if draw.chance(50):
        held = scene.claim()
        scene.commitment = Commitment(held, draw.between(2, MAX_BIN))
        if scene.ports:
            scene.heard(held, scene.port(), 0, draw.between(0, 2), 0, 1)
    scene.budget = draw.between(0, MAX_BIN)


def _is_wait(view: View) -> bool:
    return view.proposal.action == WAIT and _is_idle(view)


SITUATIONS: Mapping[str, Situation] = MappingProxyType(
    {
        "private-only": Situation(_private_only, _is_private_only, 0),
        "unresolved": Situation(_unresolved, _is_unresolved),
        "fresh-evidence": Situation(_fresh, _is_fresh_evidence),
        "relay": Situation(_relay, _is_relay_situation, 2),
        "precommit-conflict": Situation(_precommit_conflict, _is_precommit_conflict),
        "reopening": Situation(_reopening, _is_reopening),
        "synthesis": Situation(_synthesis, _is_synthesis),
        "wait": Situation(_wait, _is_wait, 0),
    }
)
"""The classes by name, in the paper's order; a bundle holds one view of each."""
BUNDLE = sum(EASY.get(name, 100) for name in SITUATIONS)
"""A hundred times the mean number of views in a bundle of `bundles`."""


def bundles(
    salt: int, count: int, frames: Callable[[Draw], FrameOf], crowded: int = 0
) -> Iterator[View]:
    """Yield views of every class, fewer of the easy ones.

    Args:
        salt: seed of every draw.
        count: number of bundles.
        frames: makes up a task and returns a callable that draws its frames.
        crowded: percent of views with many contacts.
    """
    for bundle, frame_of in _tasks(salt, count, frames):
        for name, situation in SITUATIONS.items():
            draw = Draw(salt, "bundle", bundle, name)
            frame = frame_of(draw) if draw.chance(EASY.get(name, 100)) else None
            if frame is None:
                continue
            crowd = draw.between(6, CROWD) if draw.chance(crowded) else 0
            view = make(name, frame, draw, crowd=crowd)
            if situation.holds(view):
                yield view


def _tasks(
    salt: int, count: int, frames: Callable[[Draw], FrameOf]
) -> Iterator[tuple[int, FrameOf]]:
    """Yield the bundle numbers, each with the callable that draws the frames of its task."""
    for bundle in range(count):
        if bundle % PER_TASK == 0:
            frame_of = frames(Draw(salt, "task", bundle))
        yield bundle, frame_of


def close_calls(salt: int, count: int, frames: Callable[[Draw], FrameOf]) -> Iterator[View]:
    """Yield `count` bundles of situations in which the best-looking row is not the right one.

    A law that combines one trace's strength with another's lifetime writes an inadmissible relay;
    views in which the strongest trace is dying are rare among plain situations.
    """
    names = [name for name, repeats in CLOSE.items() for _ in range(repeats)]
    for bundle, frame_of in _tasks(salt, count, frames):
        for place, name in enumerate(names):
            draw = Draw(salt, "close", bundle, place)
            frame = frame_of(draw)
            if frame is None:
                continue
            view = make(name, frame, draw, fading=draw.choice(_DYING))
            if SITUATIONS[name].holds(view):
                yield view
