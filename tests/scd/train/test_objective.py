"""Eq. scd on ragged passes: losses and gradients are those of one record after another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import shapes
from tests.scd import oracle
from tests.scd.runs import changed, encoded
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Adaptation, Recipe, Run, StageTwo
from waggle.scd.data.arrays import Rows
from waggle.scd.data.batches import Batches, passes
from waggle.scd.data.encode import scd_batches
from waggle.scd.forward import prefix_tree
from waggle.scd.heads import Heads
from waggle.scd.model import Student
from waggle.scd.train.cuda_graph import Scalars
from waggle.scd.train.objective import Objective, Sums, add, make_pass, metrics, read
from waggle.scd.train.trainer import Plan, Trainer

STAGE = StageTwo(updates=4, batch=3, transition_batch=4, warm_up=0, ramp=0)
WEIGHTS = (0.3, 0.7)
SHAPE = {
    "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16,
}  # fmt: skip


@pytest.fixture(scope="module")
def batches(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Batches:
    with encoded(tmp_path_factory.mktemp("encoded"), corpus) as some:
        return scd_batches(some, Recipe(stage_two=STAGE), 7)


def objective(heads: Heads) -> Objective:
    made = Objective(STAGE, heads, WEIGHTS)
    made.set_update(0, Scalars("cpu", replayed=False))
    return made


def stirred(student: Student) -> Student:
    """Return a student whose adapters do something."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in student.trainable().items():
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    return student


def compared(student: Student, batches: Batches, budget: int, **how: Any) -> list[Any]:
    """Hold the passes of an update against the oracle; return them."""
    student.model.eval()
    heads = Heads(student.width, 1).eval()
    parameters = [*student.trainable().values(), *heads.parameters()]
    wanted = oracle.scd_loss(student, heads, batches.batch(2), STAGE, WEIGHTS)
    gradients = torch.autograd.grad(wanted, parameters, allow_unused=True)
    parts = [make_pass(part, "cpu", **how) for part in passes(batches.batch(2), budget)]
    found = torch.stack([objective(heads)(student, part).loss for part in parts]).sum()
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    for one, other in zip(
        torch.autograd.grad(found, parameters, allow_unused=True), gradients, strict=True
    ):
        if one is not None or other is not None:
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)
    assert all(bool(g.abs().sum() > 0) for g in gradients[: len(student.trainable())])
    return parts


@pytest.mark.parametrize(
    ("kind", "shared", "budget"),
    [("lora", "nothing", 900), ("lora", "tree", 100_000), ("dense", "prefix", 900),
     ("dense", "prefix", 100_000)],
)  # fmt: skip
def test_passes_have_the_loss_and_gradient_of_one_record_after_another(
    recipe: Recipe, batches: Batches, monkeypatch: pytest.MonkeyPatch, kind: str, shared: str,
    budget: int,
) -> None:  # fmt: skip
    # As if the common beginning were long, or not worth it.
    monkeypatch.setattr(prefix_tree, "COMMON", (2 if shared == "prefix" else 10_000, 1))
    student = stirred(Student(changed(recipe, adaptation={"kind": kind}), 0))
    parts = compared(student, batches, budget, fixed=True, tree=shared == "tree")
    assert (len(parts) > 1) == (budget == 900)
    assert (shared != "nothing") == any(part.ragged.shared is not None for part in parts)


def test_in_canonical_order_the_orbit_term_is_imitation_without_consistency(
    recipe: Recipe, corpus: Path, tmp_path: Path
) -> None:
    canonical = Recipe(order="canonical", stage_two=STAGE)
    with encoded(tmp_path, corpus, "canonical") as some:
        batches = scd_batches(some, canonical, 7)
    student = stirred(Student(recipe, 0))
    (shown,) = compared(student, batches, 100_000)
    heads = Heads(student.width, 1).eval()
    result = Objective(STAGE.model_copy(update={"beta": 1e6}), heads)(student, shown)
    plain = Objective(STAGE.model_copy(update={"beta": 0.0}), heads)(student, shown)
    assert result.sums["orbit"] == plain.sums["orbit"] > 0


def test_sums_of_several_passes_are_those_of_one(recipe: Recipe, batches: Batches) -> None:
    student = stirred(Student(recipe, 0))
    student.model.eval()
    made = objective(Heads(student.width, 1).eval())
    found = []
    for budget in (100_000, 900):
        sums: Sums = {}
        for part in passes(batches.batch(2), budget):
            add(sums, made(student, make_pass(part, "cpu")).sums)
        found.append(metrics(read(sums)))
    assert found[0].pop("passes") == 1.0 < found[1].pop("passes")
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        assert found[1][name] == pytest.approx(value, rel=1e-4), name


@pytest.fixture
def qwen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recipe:
    """Return a recipe for a very small backbone of the paper's kind, with LoRA."""
    shape = SHAPE | {"vocab_size": len(nano_tokenizer())}
    monkeypatch.setitem(shapes.SHAPES, "qwen3-4b-shape", ("Qwen3", shape))
    monkeypatch.setattr(shapes, "load_tokenizer", lambda _: nano_tokenizer())
    return Recipe(
        backbone=str(shapes.save_shape("qwen3-4b-shape", tmp_path)), max_context=4000,
        stage_two=STAGE,
        adaptation=Adaptation(rank=4, alpha=8, dropout=0.05),
        run=Run(device="cpu", dtype="float32", tree=True),
    )  # fmt: skip


def test_the_papers_backbone_shares_beginnings_and_trains_adapters_alone(
    qwen: Recipe, batches: Batches
) -> None:
    student = stirred(Student(qwen, 0))
    (shown,) = compared(student, batches, 100_000, tree=True)
    assert shown.ragged.shared is not None and shown.ragged.filled < 0.8 * shown.ragged.read
    student.model.train()
    objective(Heads(student.width, 1))(student, shown).loss.backward()
    held = {name for name, p in student.model.named_parameters() if p.grad is not None}
    assert held == set(student.trainable()) and all("lora_" in name for name in held)


def test_validation_is_the_same_however_beginnings_are_shared(
    qwen: Recipe, corpus: Path, batches: Batches, tmp_path: Path
) -> None:
    student = stirred(Student(qwen, 0))
    with encoded(tmp_path, corpus) as some:
        validation: Rows = some.decisions("validation", 6)
    nll = [oracle.alone_loss(student, one) for one in oracle.sequences(validation)]
    wanted = float(torch.cat(nll).mean())
    for tree in (False, True):
        run = qwen.run.model_copy(update={"tree": tree, "tokens_per_pass": 2000})
        trainer = Trainer(
            student, Objective(STAGE, Heads(student.width, 0)), batches, validation,
            Plan(STAGE, run, 0, {}), tmp_path,
        )  # fmt: skip
        loss, tokens = trainer._measure()
        assert loss / tokens == pytest.approx(wanted, rel=1e-5)


def test_random_weights_are_those_of_the_call_before(qwen: Recipe) -> None:
    one, other = (dict(Student(qwen, 0).model.named_parameters()) for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)
