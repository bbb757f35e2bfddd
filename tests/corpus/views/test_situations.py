"""The eight classes: every generated view is of its class, bounded, and full of ties."""

from __future__ import annotations

from collections import Counter

import pytest

from waggle.core.admit import violations
from waggle.core.canon import check_view, encode_view
from waggle.core.modes import Mode, mode
from waggle.core.orbit import stabiliser_trivial
from waggle.core.protocols import Case
from waggle.core.relations import relay_ttl
from waggle.core.schema import MAX_TRACES, MAX_TTL, View
from waggle.corpus.views.frames import Shape, made_up_contract, made_up_frame, native_frame
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import (
    CLOSE,
    SITUATIONS,
    FrameOf,
    bundles,
    close_calls,
    make,
)
from waggle.laws import moves
from waggle.laws.expert.generic import decide
from waggle.laws.expert.law import rules
from waggle.plugins import get_law
from waggle.runtime.replay import view_of
from waggle.substrates.silo.adapter import Silo
from waggle.testing.episodes import play

SHAPES: tuple[Shape, ...] = ("spatial", "ports")


def some(name: str, count: int = 60) -> list[View]:
    views = []
    for i in range(count):
        draw = Draw(5, "views", name, i)
        views.append(make(name, made_up_frame(draw, SHAPES[i % 2]), draw))
    return views


def test_there_are_eight_classes() -> None:
    assert len(SITUATIONS) == 8


@pytest.mark.parametrize("name", SITUATIONS)
def test_views_of_a_class_are_bounded_and_of_that_class(name: str) -> None:
    for view in some(name):
        check_view(view)
        assert SITUATIONS[name].holds(view)


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_expert_has_an_admissible_record_for_every_view(name: str) -> None:
    for view in some(name):
        assert violations(view, rules(view.contract.task)(view)) == ()


def test_classes_are_told_apart_where_they_exclude_each_other() -> None:
    apart = [("private-only", "reopening"), ("wait", "synthesis"), ("unresolved", "relay"),
             ("fresh-evidence", "precommit-conflict")]  # fmt: skip
    for one, other in apart:
        assert not any(SITUATIONS[other].holds(view) for view in some(one, 30)), (one, other)


ASKED = {
    "private-only": {Mode.EXPLORE},
    "unresolved": {Mode.EXPLORE},
    "fresh-evidence": {Mode.DEPOSIT},
    "relay": {Mode.RELAY},
    "precommit-conflict": {Mode.CHALLENGE},
    "reopening": {Mode.CHALLENGE},
    "synthesis": {Mode.SYNTHESIZE},
    "wait": {Mode.ABSTAIN},
}
"""The modes that the classes of the paper ask for."""


def overlaps(name: str, view: View) -> bool:
    """Whether a view is of another class too, whose mode has precedence."""
    nearly = (view.private.coverage or 0) >= 3 or view.proposal.action == view.contract.response
    if name == "fresh-evidence":
        return nearly
    return name == "relay" and (nearly or SITUATIONS["fresh-evidence"].holds(view))


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_generic_expert_does_what_the_class_asks_for(name: str) -> None:
    plain = [view for view in some(name, 200) if not overlaps(name, view)]
    found = Counter(mode(view, decide(view)) for view in plain)
    asked = sum(found[m] for m in ASKED[name])
    # Ports that nothing tells apart leave a few views without a legal equivariant write.
    assert len(plain) >= 100 and asked >= 0.95 * len(plain), found


@pytest.mark.parametrize("name", ["precommit-conflict", "reopening", "synthesis", "wait"])
def test_the_silo_expert_does_so_in_silo_frames(name: str) -> None:
    case = Case("silo", "I-05", 16, 0)
    seen = play(Silo(), get_law("expert"), case)
    natives = [view_of(seen.header, u) for entry in seen.rounds for u in entry.updates]
    found: Counter[Mode] = Counter()
    for i in range(100):
        draw = Draw(5, "silo views", name, i)
        frame = native_frame(draw.choice(natives), draw)
        assert frame is not None
        view = make(name, frame, draw)
        found[mode(view, rules(view.contract.task)(view))] += 1
    assert sum(found[m] for m in ASKED[name]) >= 95, found


def test_all_modes_but_none_other_come_out() -> None:
    found = Counter(
        mode(view, rules(view.contract.task)(view)) for name in SITUATIONS for view in some(name)
    )
    assert set(found) == set(Mode)


def test_there_are_ties_distractors_and_threshold_neighbours() -> None:
    views = [view for name in SITUATIONS for view in some(name)]
    assert 0.02 < sum(not stabiliser_trivial(v) for v in views) / len(views) < 0.6
    assert {len(v.traces) for v in views} >= set(range(8))
    assert all(len(v.traces) <= MAX_TRACES for v in views)
    assert {t.ttl for v in views for t in v.traces} >= {1, 2, 8}
    assert {v.private.coverage for v in views} >= {None, 0, 1, 4}
    assert {v.budget for v in views} == {0, 1, 2, 3, 4}


def test_the_same_name_draws_the_same_view() -> None:
    assert some("relay", 5) == some("relay", 5)


def test_made_up_vocabularies_differ_and_never_name_a_transfer_task() -> None:
    frames = [made_up_frame(Draw(1, "frames", i), SHAPES[i % 2]) for i in range(80)]
    assert len({frame.contract.actions for frame in frames}) > 70
    told = " ".join(f.contract.task + f.contract.goal for f in frames).lower()
    assert not any(w in told for w in ("flock", "transport", "synchron", "coloring", "leader"))


def test_a_frame_keeps_the_task_content_of_a_native_view() -> None:
    view = some("synthesis", 1)[0]
    frame = native_frame(view, Draw(0, "frame"))
    assert frame is not None
    assert frame.contract == view.contract and frame.observation == view.private.observation


def frames_of(task: Draw) -> FrameOf:
    shape: Shape = task.choice(("spatial", "ports"))
    contract = made_up_contract(task, shape)
    return lambda draw: made_up_frame(draw, shape, contract)


def relays_a_weaker_one(view: View) -> bool:
    """Whether the strongest trace dies here and another one is relayed."""
    if not view.traces or relay_ttl(max(view.traces, key=moves.trace_rank)):
        return False
    deposits = rules(view.contract.task)(view).deposits
    return any(d.ttl < MAX_TTL and not d.conflict for d in deposits)


def test_close_calls_are_bounded_of_their_class_and_the_same_every_time() -> None:
    views = list(close_calls(7, 20, frames_of))
    assert len(views) > 100
    assert [*map(encode_view, views)] == [*map(encode_view, close_calls(7, 20, frames_of))]
    for view in views:
        check_view(view)
        assert any(SITUATIONS[name].holds(view) for name in CLOSE)
        assert violations(view, rules(view.contract.task)(view)) == ()


def test_the_strongest_trace_dies_far_more_often_than_in_plain_situations() -> None:
    close, plain = list(close_calls(7, 60, frames_of)), list(bundles(7, 60, frames_of))
    shares = [sum(map(relays_a_weaker_one, some)) / len(some) for some in (close, plain)]
    assert shares[0] > 4 * shares[1] > 0
