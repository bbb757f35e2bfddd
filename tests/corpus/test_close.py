"""Close calls and regime `ports` in a harvest: what they hold, and that older kinds stay as is."""

from __future__ import annotations

import pytest

from waggle.core.admit import violations
from waggle.core.canon import check_view, encode_view
from waggle.core.schema import MAX_TTL, View
from waggle.core.seeds import Split
from waggle.corpus import harvest
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.views import made
from waggle.corpus.views.frames import Shape, made_up_contract, made_up_frame
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import SITUATIONS
from waggle.laws import moves
from waggle.laws.expert.law import rules

PLAIN = HarvestSettings(tasks=("silo/I-05", "silo/II-16"), native=200, synthetic=100, n=(8,))
MORE = PLAIN.model_copy(update={"close": 700, "ports": 1200})


def frames(task: Draw) -> made.FrameOf:
    shape: Shape = task.choice(("spatial", "ports"))
    contract = made_up_contract(task, shape)
    return lambda draw: made_up_frame(draw, shape, contract)


def passes_a_weaker_one_on(view: View) -> bool:
    """Whether the strongest trace dies here and another one is relayed."""
    if not view.traces or max(view.traces, key=moves.trace_rank).ttl > 1:
        return False
    deposits = rules(view.contract.task)(view).deposits
    return any(d.ttl < MAX_TTL and not d.conflict for d in deposits)


def test_close_calls_are_bounded_of_their_class_and_the_same_every_time() -> None:
    views = list(made.close(7, 20, frames))
    assert len(views) > 100
    assert [*map(encode_view, views)] == [*map(encode_view, made.close(7, 20, frames))]
    for view in views:
        check_view(view)
        assert any(SITUATIONS[name].holds(view) for name in made.CLOSE)
        assert violations(view, rules(view.contract.task)(view)) == ()


def test_the_strongest_trace_dies_far_more_often_than_in_plain_situations() -> None:
    close, plain = list(made.close(7, 100, frames)), list(made.situations(7, 100, frames))
    shares = [sum(map(passes_a_weaker_one_on, some)) / len(some) for some in (close, plain)]
    assert shares[0] > 4 * shares[1] > 0


@pytest.mark.parametrize("split", ["train", "validation"])
def test_later_kinds_come_last_and_leave_the_others_alone(split: str) -> None:
    before, after = harvest.plan(PLAIN, split), harvest.plan(MORE, split)
    assert after[: len(before)] == before
    later = after[len(before) :]
    assert {job.kind for job in later} == {"close", "episode"}
    assert all(Split.of(job.case.seed) is Split.TRAIN for job in later)


def test_ports_are_played_with_small_and_large_frames_on_every_port() -> None:
    jobs = [job for job in harvest.plan(MORE, "train") if job.case.options]
    assert {job.case.options["cap"] for job in jobs} == {512, 4096}
    plain = [job.case.seed for job in harvest.plan(PLAIN, "train") if job.law]
    assert [job.case.seed for job in jobs][: len(plain)] != plain
    pairs = [pair for job in jobs for pair in harvest.gather(job, MORE, "shuffled")]
    assert all(not violations(view, decision) for view, decision in pairs)
    assert max(len(decision.deposits) for _, decision in pairs) == 3


def test_a_harvest_without_them_keeps_the_name_it_had() -> None:
    assert not {"close", "ports"} & set(PLAIN.model_dump(mode="json"))
    assert MORE.model_dump(mode="json")["close"] == 700
    assert HarvestSettings.model_validate(MORE.model_dump()) == MORE
