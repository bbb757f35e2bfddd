"""The eight local-situation classes of the curriculum ("Decision loss, corpus, and split ...").

Each class has a generator, full of ties and near-ties of every threshold (bins next to each other,
TTL 1 and 2, coverage 0 and 1, support at the gate), and a test that says whether a view is of the
class. Classes describe inputs; they are not the six derived modes, and no label is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from waggle.core.relations import is_verified
from waggle.core.schema import MAX_BIN, MAX_TTL, WAIT, Commitment, View
from waggle.corpus.views.frames import Frame
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.scene import Scene

Fill: TypeAlias = Callable[[Scene], None]
Test: TypeAlias = Callable[[View], bool]


class Situation(NamedTuple):
    """A class: how to fill a scene, how to recognise one, and how few ports it needs."""

    fill: Fill
    holds: Test
    ports: int = 1


def make(name: str, frame: Frame, draw: Draw, *, crowd: int = 0, fading: int = 0) -> View:
    """Generate one view of a class in a frame.

    Args:
        name: the class.
        frame: the task side.
        draw: names every choice.
        crowd: so many contacts instead of a few.
        fading: percent of traces that are about to die besides those of the class.
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
    """Return a bin at, one below or one above another."""
    return min(MAX_BIN, max(0, bin + draw.between(-1, 1)))


def _private_only(scene: Scene) -> None:
    """Nothing usable: no evidence, no commitment event; at most dying or empty traces."""
    scene.distract(3, ttl=1, support=1, novelty=1)


def _is_private_only(view: View) -> bool:
    return (
        view.proposal.action != WAIT
        and not view.private.evidence
        and not view.private.ready
        and view.commitment is None
        and all(t.ttl == 1 for t in view.traces)
    )


def _unresolved(scene: Scene) -> None:
    """Traces that do not add up: too little support, or directions and claims that disagree."""
    draw = scene.draw
    claims = [scene.claim() for _ in range(draw.between(1, 3))]
    for _ in range(draw.between(1, 6)):
        scene.told(
            draw.choice(claims),
            draw.below(len(scene.ports)),
            novelty=0,
            support=draw.between(0, 2),
            conflict=draw.choice((0, 0, 0, 1, 2)),
            ttl=1,
        )
    if draw.chance(25):
        scene.commitment = Commitment(draw.choice(claims), draw.between(1, MAX_BIN))


def _is_unresolved(view: View) -> bool:
    return (
        bool(view.traces)
        and not view.private.ready
        and all(t.ttl == 1 for t in view.traces)
        and not any(e.conflict for e in view.private.evidence)
    )


def _fresh(scene: Scene) -> None:
    """Own evidence that no neighbour has told, with older traces beside it."""
    draw = scene.draw
    for _ in range(draw.choice((1, 1, 2, 3))):
        claim = scene.claim()
        novelty = MAX_BIN if draw.chance(70) else draw.between(1, 3)
        scene.own(claim, novelty=novelty, support=draw.between(1, MAX_BIN))
    if scene.frame.provisional:
        scene.coverage = draw.between(0, 3)
        if draw.chance(60):
            scene.propose("z1", answer=draw.chance(20))
    scene.distract(draw.choice((0, 2, 4, 8)), support=2, novelty=3)
    if draw.chance(20):
        scene.commitment = Commitment("z1", draw.between(0, 3))


def _is_fresh_evidence(view: View) -> bool:
    told = {t.claim for t in view.traces}
    return any(
        e.claim not in told and e.conflict == 0 and e.novelty > 0 for e in view.private.evidence
    ) and not any(e.conflict for e in view.private.evidence)


def _relay(scene: Scene) -> None:
    """Useful living traces, alike or almost alike, one or two of them the best."""
    draw = scene.draw
    support, novelty = draw.between(1, MAX_BIN), draw.between(1, MAX_BIN)
    for _ in range(draw.choice((1, 2, 2, 3, 5))):
        scene.told(
            scene.claim(),
            draw.below(len(scene.ports)),
            novelty=_near(draw, novelty),
            support=_near(draw, support),
            ttl=draw.choice((2, 2, 3, 5, MAX_TTL)),
        )
    scene.distract(draw.choice((0, 2, 5)), ttl=2)
    if scene.frame.provisional:
        scene.coverage = draw.choice((0, 0, 1, 2))
    if draw.chance(30):
        scene.own(scene.claim(), novelty=draw.between(0, 1), support=draw.between(0, 1))
    if draw.chance(15):
        scene.commitment = Commitment(scene.traces[0].claim, draw.between(0, MAX_BIN))


def _is_relay_situation(view: View) -> bool:
    return (
        any(t.ttl > 1 and t.conflict == 0 for t in view.traces)
        and len(view.private.channels) > 1
        and not any(e.conflict for e in view.private.evidence)
        and not view.private.ready
    )


def _precommit_conflict(scene: Scene) -> None:
    """Own counterevidence to a candidate that neighbours support and nobody here holds."""
    draw = scene.draw
    wrong = scene.claim()
    for port in range(draw.between(1, len(scene.ports))):
        scene.told(
            wrong, port, novelty=draw.between(0, 4), support=draw.between(1, 4),
            ttl=draw.between(1, MAX_TTL),
        )  # fmt: skip
    scene.own(wrong, novelty=draw.between(2, 4), support=0, conflict=draw.between(1, MAX_BIN))
    _alternative(scene)
    scene.distract(draw.choice((0, 2, 4)))


def _alternative(scene: Scene) -> None:
    """Let own evidence support another claim, in two of three draws; sometimes it is ready."""
    draw = scene.draw
    if not draw.chance(66):
        return
    right = scene.claim()
    scene.own(right, novelty=MAX_BIN, support=draw.between(1, MAX_BIN))
    if draw.chance(40):
        scene.ready.append(right)
    if scene.frame.provisional:
        scene.coverage = draw.between(0, MAX_BIN)
        scene.propose(right, answer=draw.chance(30))


def _is_precommit_conflict(view: View) -> bool:
    told = {t.claim for t in view.traces}
    held = None if view.commitment is None else view.commitment.claim
    return any(
        e.conflict and e.claim in told and e.claim != held for e in view.private.evidence
    ) and not (held is not None and is_verified(view, held))


def _reopening(scene: Scene) -> None:
    """Own counterevidence to the claim that is held."""
    draw = scene.draw
    held = scene.claim()
    scene.commitment = Commitment(held, draw.between(0, MAX_BIN))
    scene.own(held, novelty=draw.between(1, 4), support=0, conflict=draw.between(1, MAX_BIN))
    for port in range(draw.between(0, len(scene.ports))):
        scene.told(
            held, port, novelty=draw.between(0, 3), support=draw.between(0, 4),
            conflict=draw.choice((0, 0, 1, 3)), ttl=draw.between(1, MAX_TTL),
        )  # fmt: skip
    _alternative(scene)
    scene.distract(draw.choice((0, 2, 4)))


def _is_reopening(view: View) -> bool:
    return view.commitment is not None and is_verified(view, view.commitment.claim)


def _synthesis(scene: Scene) -> None:
    """A claim is ready (sometimes two, almost alike) and nothing contradicts it."""
    draw = scene.draw
    ready = [scene.claim() for _ in range(draw.choice((1, 1, 1, 2)))]
    support = draw.between(2, MAX_BIN)
    for claim in ready:
        for port in range(draw.between(1, len(scene.ports))):
            scene.told(
                claim, port, novelty=draw.between(0, 3), support=_near(draw, support),
                ttl=draw.between(1, MAX_TTL),
            )  # fmt: skip
        if draw.chance(50):
            scene.own(claim, novelty=draw.between(0, 4), support=_near(draw, support))
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
    return bool(view.private.ready) and not any(e.conflict for e in view.private.evidence)


def _wait(scene: Scene) -> None:
    """Nothing is warranted, or the private proposal itself is to wait."""
    draw = scene.draw
    scene.proposal = WAIT
    scene.distract(draw.choice((0, 0, 3)), ttl=1, support=1)
    if draw.chance(50):
        held = scene.claim()
        scene.commitment = Commitment(held, draw.between(2, MAX_BIN))
        if scene.ports:
            scene.told(
                held, draw.below(len(scene.ports)), novelty=0, support=draw.between(0, 2), ttl=1
            )
    scene.budget = draw.between(0, MAX_BIN)


def _is_wait(view: View) -> bool:
    return (
        view.proposal.action == WAIT
        and not view.private.evidence
        and not view.private.ready
        and all(t.ttl == 1 for t in view.traces)
    )


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
