"""Batches: every record once per epoch, shares of processes, and passes within a budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.scd.oracle import sequences
from tests.scd.runs import encoded
from waggle.core.seeds import derive
from waggle.corpus.store import CorpusError, Store
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Recipe, StageOne, StageTwo
from waggle.scd.data.arrays import Encoded, from_encoded
from waggle.scd.data.batches import Schedule, StratifiedSchedule, groups, passes, token_batches
from waggle.scd.data.encode import scd_batches
from waggle.scd.data.records import image, in_order, labelled
from waggle.scd.data.tokenize import ChatEncoder

RECIPE = Recipe(stage_two=StageTwo(updates=5, batch=3, transition_batch=4))


@pytest.mark.parametrize("order", ["shuffled", "canonical"])
def test_batches_are_those_that_the_records_define(
    corpus: Path, tmp_path: Path, order: str
) -> None:
    recipe = RECIPE.model_copy(update={"order": order})
    with encoded(tmp_path, corpus, order) as some:
        made = scd_batches(some, recipe, 7)
        transitions = some.transitions("train")
    encoder, store = ChatEncoder(nano_tokenizer()), Store(corpus)
    records = labelled(store.examples("decisions", "train"))
    schedule = Schedule(len(records), 3, 7, "decisions")
    strata = StratifiedSchedule(transitions.eventful.tolist(), 4, 0.5, 7)
    for update in range(5):
        batch = made.batch(update)
        chosen = [(records[i], epoch) for i, epoch in schedule.batch(update)]
        shown = [in_order(r.view, r.decision, order) for r, _ in chosen]  # type: ignore[arg-type]
        wanted = encoder.encode([v for v, _ in shown], [d for _, d in shown])
        assert sequences(batch.decisions) == wanted
        if order == "canonical":
            assert batch.images is None
        else:
            images = [
                image(r.view, r.decision, derive(7, "orbit", r.key, epoch)) for r, epoch in chosen
            ]
            wanted = encoder.encode([v for v, _ in images], [d for _, d in images])
            assert batch.images is not None and sequences(batch.images) == wanted
        picked = transitions.take(strata.records(update))
        assert sequences(batch.transitions) == sequences(picked)
        assert np.array_equal(batch.transitions.targets, picked.targets)
        assert batch.transitions.eventful.tolist() == [True, True, False, False]


def test_processes_share_a_batch(corpus: Path, tmp_path: Path) -> None:
    with encoded(tmp_path, corpus) as some:
        made = scd_batches(some, RECIPE, 7)
    whole, parts = made.batch(1), [made.batch(1, rank, 2) for rank in (0, 1)]
    for name in ("decisions", "images", "transitions"):
        dealt = [sequences(getattr(part, name)) for part in parts]
        wanted = sequences(getattr(whole, name))
        assert dealt == [wanted[0::2], wanted[1::2]]


def test_every_epoch_meets_every_record_once() -> None:
    rows = from_encoded([Encoded([i], [i]) for i in range(23)], [[] for _ in range(23)])
    made = token_batches(rows, StageOne(batch=5), 7)
    met = np.concatenate([made.batch(u).decisions.ids[::2] for u in range(-(-23 // 5) * 2)])
    epochs = [met[:23].tolist(), met[23:46].tolist()]
    assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
    assert epochs[0] != epochs[1] != list(range(23))


def test_strata_that_are_missing_are_made_up_by_the_other() -> None:
    for flag in (True, False):
        assert len(StratifiedSchedule([flag] * 5, 4, 0.5, 0).records(0)) == 4
    with pytest.raises(CorpusError, match="waggle corpus transitions"):
        StratifiedSchedule([], 4, 0.5, 0)


def test_passes_keep_to_the_budget_and_hold_every_record(corpus: Path, tmp_path: Path) -> None:
    with encoded(tmp_path, corpus) as some:
        batch = scd_batches(some, RECIPE, 7).batch(2)
    assert [len(part.decisions) for part in passes(batch, 100_000)] == [3]
    parts = list(passes(batch, 900))
    assert len(parts) > 2
    for part in parts:
        assert part.images is not None and len(part.images) == len(part.decisions)
    for name in ("decisions", "images", "transitions"):
        found = [one for part in parts for one in sequences(getattr(part, name))]
        assert found == sequences(getattr(batch, name))
    assert groups(np.array([], np.int64), 10) == []
    assert [g.tolist() for g in groups(np.array([30, 5, 5, 5]), 10)] == [[0], [1, 2], [3]]
