"""Beginnings that some sequences share: keys are whole sequences, losses those of packed passes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from waggle.corpus.store import Store
from waggle.models.nano import nano_tokenizer
from waggle.scd import model as models
from waggle.scd.config import Adaptation, Recipe, Run, StageTwo
from waggle.scd.data.arrays import within
from waggle.scd.data.chains import chain, grown
from waggle.scd.data.lessons import Lessons, lessons
from waggle.scd.data.prepare import Prepared
from waggle.scd.forward import tree as tree_module
from waggle.scd.forward.tree import Tree
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.run.stages import second
from waggle.scd.train.passes import Totals, Weights, scd_loss, scd_pass
from waggle.scd.train.scenes import passed, scene
from waggle.scd.train.trainer import Plan

SHAPE = {
    "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True,
    "max_position_embeddings": 4096,
}  # fmt: skip
STAGE = StageTwo(updates=4, batch=3, transition_batch=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=7))
def test_the_keys_of_every_sequence_are_its_tokens(sequences: list[list[int]]) -> None:
    ids = np.array([token for one in sequences for token in one])
    fed = np.array([len(one) for one in sequences])
    starts = np.cumsum(fed) - fed
    found = chain(ids, starts, fed, fed - 1)
    assert (found.skip < fed).all(), "the last token is never borrowed"
    tokens = ids[within(starts + found.skip, fed - found.skip)]
    keys = grown(found, fed - found.skip)
    assert tokens[keys.keys].tolist() == ids.tolist()
    assert keys.bounds.tolist() == [0, *np.cumsum(fed).tolist()]
    assert keys.keys[keys.own].tolist() == list(range(len(tokens)))
    every = np.concatenate((keys.own, keys.copies))
    assert sorted(every.tolist()) == list(range(len(ids)))
    assert (keys.keys[keys.copies] == np.repeat(keys.shared, np.diff(keys.ends))).all()


def test_what_one_other_sequence_has_is_computed_once() -> None:
    sequences = [[5, 6, 7, 1], [5, 9, 9, 2], [5, 6, 7, 3], [5, 6, 8, 4]]
    fed = np.array([4, 4, 4, 4])
    found = chain(np.concatenate(sequences), np.arange(0, 16, 4), fed, fed - 1)
    assert found.order.tolist() == [0, 2, 3, 1] and found.skip.tolist() == [0, 1, 3, 2]


@pytest.mark.parametrize("ordered", [True, False])
def test_the_gradient_of_a_row_is_the_sum_over_its_copies(
    monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    assert tree_module._adds("cpu")
    monkeypatch.setattr(tree_module, "_adds", lambda _kind: ordered)
    drawn = np.random.Generator(np.random.PCG64(0))
    rows = [np.concatenate(([1] * 5, [i % 2] * 3, drawn.integers(0, 9, 4))) for i in range(6)]
    fed = np.array([12] * 6)
    found = chain(np.concatenate(rows), np.arange(0, 72, 12), fed, fed - 1)
    told = grown(found, fed - found.skip)
    keys, own, shared, copies, ends = (
        torch.from_numpy(x) for x in (told.keys, told.own, told.shared, told.copies, told.ends)
    )
    tree = Tree(keys, own, shared, copies, ends, keys.int())
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(len(own), 2, 4, generator=generator).requires_grad_()
    given_ = torch.randn(len(keys), 2, 4, generator=generator)
    (one,) = torch.autograd.grad(tree.spread(states), states, given_)
    (other,) = torch.autograd.grad(states.index_select(0, keys), states, given_)
    assert torch.equal(tree.spread(states), states.index_select(0, keys))
    torch.testing.assert_close(one, other)


@pytest.fixture
def qwen(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """Return a recipe for a very small backbone of the paper's kind, with LoRA."""
    monkeypatch.setitem(models.SHAPES, "qwen3-4b-shape", SHAPE)
    monkeypatch.setitem(models._VOCABULARY, "qwen3-4b-shape", len(nano_tokenizer()))
    monkeypatch.setattr(models, "_measuring_tokenizer", nano_tokenizer)
    return Recipe(
        backbone="qwen3-4b-shape", max_context=4000, stage_two=STAGE,
        adaptation=Adaptation(rank=4, alpha=8, dropout=0.05),
        run=Run(device="cpu", dtype="float32", flat=True, tree=True),
    )  # fmt: skip


def made(recipe: Recipe, corpus: Path, folder: Path) -> tuple[Student, Lessons, Any]:
    """Return a student whose adapters do something, and its records."""
    student = Student(recipe, 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in student.trainable().items():
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    with Prepared(folder, Store(corpus), student.tokenizer, "shuffled", longest=4000) as some:
        return student, lessons(some, STAGE, "shuffled", 7, 0.5), some.decisions("validation", 6)


def test_the_papers_backbone_with_adapters_has_the_loss_and_gradients_of_packed_passes(
    qwen: Recipe, corpus: Path, tmp_path: Path
) -> None:
    student, records, _ = made(qwen, corpus, tmp_path)
    student.model.eval()
    heads = Heads(student.width, 1).eval()
    totals, weights = Totals(3, 4), Weights(0.3, 0.7, 1.0, 0.1, True)
    parameters = [*student.trainable().values(), *heads.parameters()]
    packed = scd_pass(student, heads, [*records.pairs(2), *records.moves(2)], totals, weights)
    shown = scene(records.lesson(2), "cpu", tree=True)
    assert isinstance(shown.flat.shared, Tree) and shown.flat.filled < 0.8 * shown.flat.read
    flat = scd_loss(heads, passed(student, shown.flat), shown.told, totals, weights, 0.0)
    torch.testing.assert_close(flat.loss, packed.loss, atol=1e-5, rtol=1e-5)
    wanted, found = (
        torch.autograd.grad(result.loss, parameters, allow_unused=True) for result in (packed, flat)
    )
    assert all(
        isinstance(g, Tensor) and bool(g.abs().sum() > 0)
        for g in wanted[: len(student.trainable())]
    )
    for one, other in zip(found, wanted, strict=True):
        if one is not None or other is not None:
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


def test_nothing_frozen_gets_a_gradient(qwen: Recipe, corpus: Path, tmp_path: Path) -> None:
    student, records, _ = made(qwen, corpus, tmp_path)
    student.model.train()
    flat = scene(records.lesson(0), "cpu", tree=True).flat
    passed(student, flat).nll.sum().backward()
    held = {name for name, p in student.model.named_parameters() if p.grad is not None}
    assert held == set(student.trainable()) and all("lora_" in name for name in held)


def test_validation_is_the_same_however_beginnings_are_shared(
    qwen: Recipe, corpus: Path, tmp_path: Path
) -> None:
    student, records, held = made(qwen, corpus, tmp_path)
    losses = []
    for how in ({"flat": False}, {"tree": False}, {"tree": True}):
        run = qwen.run.model_copy(update={**how, "tokens_per_pass": 2000})
        plan = Plan(STAGE, run, 0, {}, None, [], None)
        trainer = second(student, Heads(student.width, 0), plan, records, held, tmp_path)
        nll, tokens = trainer._measure()
        losses.append(nll / tokens)
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[2] == pytest.approx(losses[0], rel=1e-5) and math.isfinite(losses[0])


def test_random_weights_are_those_of_the_call_before(qwen: Recipe) -> None:
    one, other = (dict(Student(qwen, 0).model.named_parameters()) for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)
