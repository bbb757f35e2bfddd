"""A harvest has its kinds in their shares, of training seeds; later kinds leave others alone."""

from __future__ import annotations

from collections import Counter

import pytest

from waggle.core.admit import violations
from waggle.core.seeds import Split
from waggle.corpus import harvest
from waggle.corpus.settings import HarvestSettings

PLAIN = HarvestSettings(tasks=("silo/I-05", "silo/II-16"), native=200, synthetic=100, n=(8,))
LATER = ("close", "ports", "far", "near")
MORE = PLAIN.model_copy(update=dict.fromkeys(LATER, 300) | {"ports": 1200})
MIXED = HarvestSettings(
    tasks=("swarmbench/pursuit", "silo/I-05"), native=1200, synthetic=400, disguised=400,
    far=300, held_out=8, n=(8,), rounds=20,
)  # fmt: skip


@pytest.mark.parametrize("split", ["train", "validation"])
def test_later_kinds_come_last_and_leave_the_others_alone(split: str) -> None:
    before, after = harvest.plan(PLAIN, split), harvest.plan(MORE, split)
    assert after[: len(before)] == before
    later = after[len(before) :]
    assert {job.kind for job in later} == {*LATER, "episode"} - {"ports"}
    assert all(Split.of(job.case.seed) is Split.TRAIN for job in later)
    (last,) = later[-1:]
    assert len(harvest.gather(last, MORE, "canonical")) == harvest.GRAPH_VIEWS


def test_ports_are_played_with_small_and_large_frames_on_every_port() -> None:
    jobs = [job for job in harvest.plan(MORE, "train") if job.case.options]
    assert {job.case.options["cap"] for job in jobs} == {512, 4096}
    plain = [job.case.seed for job in harvest.plan(PLAIN, "train") if job.law]
    assert [job.case.seed for job in jobs][: len(plain)] != plain
    pairs = [pair for job in jobs[:8] for pair in harvest.gather(job, MORE, "shuffled")]
    assert all(not violations(view, decision) for view, decision in pairs)
    assert max(len(decision.deposits) for _, decision in pairs) == 3


def test_a_harvest_without_later_kinds_keeps_its_identity() -> None:
    assert not set(LATER) & set(PLAIN.model_dump(mode="json"))
    assert MORE.model_dump(mode="json")["close"] == 300
    assert HarvestSettings.model_validate(MORE.model_dump()) == MORE


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_harvest_has_its_kinds_in_the_share_it_was_asked_for(split: str) -> None:
    jobs = harvest.plan(MIXED, split)
    assert {job.kind for job in jobs} == {"episode", "synthetic", "disguised", "far"}
    assert all(Split.of(job.case.seed) is Split.TRAIN for job in jobs)
    pairs = [(job, pair) for job in jobs for pair in harvest.gather(job, MIXED, "shuffled")]
    known = ("swarmbench/pursuit", "silo/I-05")
    found = Counter[str]()
    for job, (view, decision) in pairs:
        assert not violations(view, decision)
        again = job.kind == "episode" and view.contract.task not in known
        found["disguised" if again else job.kind] += 1
    if split == "train":
        assert 1000 < found["episode"] < 1700 and 250 < found["disguised"] < 900
        assert found["synthetic"] >= 300 and found["far"] == 300
