"""Batches encoded ahead, and flat passes: the same records, losses and trajectories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from waggle.core.seeds import derive
from waggle.corpus.store import CorpusError, Store
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Recipe, StageTwo
from waggle.scd.data import arrays as rows
from waggle.scd.data import flats
from waggle.scd.data.lessons import lessons
from waggle.scd.data.prepare import Prepared
from waggle.scd.data.records import Decisions, Strata, encode_moves, labelled
from waggle.scd.data.tokens import Coder
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.run.stages import Stages
from waggle.scd.train.checkpoint import read_tensors
from waggle.scd.train.passes import Totals, Weights, scd_loss, scd_pass
from waggle.scd.train.scenes import cut, passed, scene

STAGE = StageTwo(updates=5, batch=3, transition_batch=4)


def prepared(folder: Path, corpus: Path, order: str = "shuffled", workers: int = 1) -> Prepared:
    return Prepared(
        folder, Store(corpus), nano_tokenizer(), order, longest=4000, workers=workers  # type: ignore[arg-type]
    )  # fmt: skip


def same(one: rows.Rows, other: rows.Rows) -> bool:
    return all(np.array_equal(getattr(one, k), getattr(other, k)) for k in one._fields)


@pytest.mark.parametrize("order", ["shuffled", "canonical"])
def test_batches_are_those_that_the_records_define(
    corpus: Path, tmp_path: Path, order: str
) -> None:
    with prepared(tmp_path, corpus, order) as some:
        made = lessons(some, STAGE, order, 7, 0.5)  # type: ignore[arg-type]
    coder, store = Coder(nano_tokenizer()), Store(corpus)
    records = labelled(store.examples("decisions", "train"))
    decisions = Decisions(records, coder, order, 7, batch=3, images=True)  # type: ignore[arg-type]
    played = list(store.transitions("train"))
    strata = Strata([bool(t.events) for t in played], 4, 0.5, 7)
    for update in range(STAGE.updates):
        assert made.pairs(update) == decisions.batch(update)
        chosen = [played[i] for i in strata.batch(update)]
        moves = encode_moves(chosen, coder, order)  # type: ignore[arg-type]
        for one, other in zip(made.moves(update), moves, strict=True):
            assert (one.source, one.labels, one.eventful) == (
                other.source,
                other.labels,
                other.eventful,
            )
            assert np.array_equal(one.target, other.target)


@pytest.mark.usefixtures("workers")
def test_sets_are_the_same_whatever_the_workers_and_are_made_once(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.scd.data.prepare.CHUNK", 4)
    found = []
    for name, workers in (("one", 1), ("two", 2)):
        with prepared(tmp_path / name, corpus, workers=workers) as some:
            found.append((some.decisions("train"), some.images(3, 4, 3), some.transitions("test")))
    for one, other in zip(*found, strict=True):
        assert same(one, other)
    monkeypatch.setattr("waggle.scd.data.prepare._spell", None)
    with prepared(tmp_path / "one", corpus) as some:
        again = some.images(3, 4, 3)
    assert np.array_equal(again.ids, found[0][1].ids)


def test_a_damaged_set_is_one_line(corpus: Path, tmp_path: Path) -> None:
    with prepared(tmp_path, corpus) as some:
        some.decisions("test")
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    with (
        prepared(tmp_path, corpus) as some,
        pytest.raises(CorpusError, match=r"damaged.*delete it and run again"),
    ):
        some.decisions("test")


def test_rows_take_and_stack(corpus: Path, tmp_path: Path) -> None:
    with prepared(tmp_path, corpus) as some:
        every = some.transitions("train")
    index = np.array([5, 0, 3])
    assert [m.source for m in every.take(index).moves()] == [every.moves()[i].source for i in index]
    both = rows.stack([every.take(index[:1]), every.take(index[1:])])
    assert same(both, every.take(index))


@pytest.mark.parametrize("shared", ["nothing", "prefix", "tree"])
@pytest.mark.parametrize("kind", ["lora", "dense"])
def test_a_flat_pass_has_the_loss_and_gradient_of_a_packed_one(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str,
    shared: str,
) -> None:  # fmt: skip
    # As if the common beginning were long, or not worth it.
    monkeypatch.setattr(flats, "SHARED", (2, 1) if shared == "prefix" else (10_000, 1))
    data = recipe.model_dump()
    data["adaptation"] |= {"kind": kind}
    recipe = Recipe.model_validate(data)
    student = Student(recipe, 0)
    student.model.eval()
    heads = Heads(student.width, 1).eval()
    with prepared(tmp_path, corpus) as some:
        made = lessons(some, STAGE, "shuffled", 7, 0.5)
    totals, weights = Totals(3, 4), Weights(0.3, 0.7, 1.0, 0.1, True)
    parameters = [*student.trainable().values(), *heads.parameters()]
    packed = scd_pass(student, heads, [*made.pairs(2), *made.moves(2)], totals, weights)
    wanted = torch.autograd.grad(packed.loss, parameters, allow_unused=True)
    for budget in (100_000, 900):
        parts = [
            scene(part, "cpu", fixed=True, tree=shared == "tree")
            for part in cut(made.lesson(2), budget)
        ]
        assert (len(parts) > 1) == (budget == 900)
        assert (shared != "nothing") == any(part.flat.shared is not None for part in parts)
        each = [
            scd_loss(heads, passed(student, part.flat), part.told, totals, weights, 0.0)
            for part in parts
        ]
        loss = torch.stack([result.loss for result in each]).sum()
        torch.testing.assert_close(loss, packed.loss, atol=1e-5, rtol=1e-5)
        for one, other in zip(
            torch.autograd.grad(loss, parameters, allow_unused=True), wanted, strict=True
        ):
            if one is not None or other is not None:
                torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)
        names = ("decision", "orbit", "orbit.hits", "field", "field.eventful", "nll")
        for name in names:
            total = sum(float(result.sums.get(name, 0.0)) for result in each)
            assert total == pytest.approx(float(packed.sums[name]), rel=1e-4)


def flat(recipe: Recipe, kind: str, **run: object) -> Recipe:
    data = recipe.model_dump()
    data["run"] |= {"flat": True, **run}
    data["adaptation"] |= {"kind": kind}
    return Recipe.model_validate(data)


def last(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "checkpoints" / "update-000004" / "trainable.safetensors")


@pytest.mark.parametrize(("kind", "tree"), [("lora", True), ("dense", False), ("full", False)])
def test_a_flat_arm_resumes_to_the_same_weights_and_zero_weights_are_decision_only(
    recipe: Recipe, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str,
    tree: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(flats, "SHARED", (2, 1))
    # Compiled adapters drop by a hash; what they compute needs no compiler to be shown.
    monkeypatch.setattr(torch.nn.Module, "compile", lambda *_, **__: None)
    chosen = flat(recipe, kind, log_every=3, tree=tree, compile=tree)
    assert chosen.adaptation.dropout > 0
    stages = Stages(chosen, corpus, tmp_path / "a", 0)
    stages.warm_start()
    whole = last(stages.arm("scd").parent)
    other = Stages(chosen, corpus, tmp_path / "b", 0)
    (tmp_path / "b" / "seed-0").mkdir(parents=True)
    (tmp_path / "b/seed-0/warm-start").symlink_to(tmp_path / "a/seed-0/warm-start")
    other.arm("scd", until=1)
    other.arm("scd", until=3)
    again = last(other.arm("scd").parent)
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    plain = last(stages.arm("decision").parent)
    data = chosen.model_dump()
    data["stage_two"] |= {"lambda_orbit": 0.0, "lambda_field": 0.0}
    zero = Stages(Recipe.model_validate(data), corpus, tmp_path / "b", 0)
    unused = last(zero.arm("orbit").parent)
    assert all(torch.equal(plain[name], unused[name]) for name in plain)
    assert any(not torch.equal(plain[name], whole[name]) for name in plain)


def test_images_are_those_of_the_training_seed(corpus: Path, tmp_path: Path) -> None:
    with prepared(tmp_path, corpus) as some:
        one, other = some.images(derive(0, "a"), 2, 3), some.images(derive(1, "a"), 2, 3)
    assert not np.array_equal(one.ids, other.ids)
