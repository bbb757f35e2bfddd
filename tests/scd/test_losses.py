"""Losses against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from waggle.core.summary import FACTORS, Field
from waggle.scd import losses
from waggle.scd.config import StageTwo, weights
from waggle.scd.data.records import field_targets
from waggle.scd.heads import EMBEDDING, FIELD_WIDTHS, HIDDEN, Heads, OrbitHeads

LN2, LN3 = math.log(2), math.log(3)


def test_token_loss_sums_to_records_or_averages_over_their_tokens() -> None:
    nll = torch.tensor([1.0, 2.0, 4.0])
    record = torch.tensor([0, 0, 1])
    assert losses.record_loss(nll, record, 2, mean=False).tolist() == [3.0, 4.0]
    assert losses.record_loss(nll, record, 2, mean=True).tolist() == [1.5, 4.0]


def test_token_nll_of_uniform_logits_is_the_log_of_the_vocabulary() -> None:
    found = losses.token_nll(torch.zeros(2, 8), torch.tensor([0, 7]))
    assert found.tolist() == pytest.approx([math.log(8)] * 2)


def test_symmetric_kl_by_hand() -> None:
    p, q = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    forward = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    back = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert losses.symmetric_kl(p, q).item() == pytest.approx(0.5 * forward + 0.5 * back)
    assert losses.symmetric_kl(p, q).item() == pytest.approx(losses.symmetric_kl(q, p).item())
    assert losses.symmetric_kl(p, p).item() == 0


def test_orbit_heads_average_two_cross_entropies_and_the_kl_over_factors() -> None:
    even, skewed = torch.zeros(1, 2), torch.tensor([[0.25, 0.75]]).log()
    labels = torch.tensor([[0, 1]])
    skl = losses.symmetric_kl(even, skewed).item()
    found = losses.orbit_head_loss(torch.stack([even, even], 1), torch.stack([skewed, skewed], 1),
                                   labels, 0.1)  # fmt: skip
    first = LN2 - math.log(0.25) + 0.1 * skl
    second = LN2 - math.log(0.75) + 0.1 * skl
    assert found.item() == pytest.approx((first + second) / 2)


def test_orbit_accuracy_is_the_share_of_factors() -> None:
    logits = torch.tensor([[[2.0, 0.0], [2.0, 0.0]]])
    assert losses.orbit_accuracy(logits, torch.tensor([[0, 1]])).item() == 0.5


def test_field_loss_gives_both_groups_equal_weight() -> None:
    logits = Heads(4, 0).field.targets.far[None]
    even = {name: [1.0 / FIELD_WIDTHS[name]] * FIELD_WIDTHS[name] for name in losses.HISTOGRAMS}
    target = field_targets(Field(**even, ready=1, commitment=5))
    hist = (3 * math.log(6) + math.log(10)) / 4
    state = (math.log(2) + math.log(6)) / 2
    targets = torch.from_numpy(target)[None]
    assert losses.field_loss(logits, targets).item() == pytest.approx(hist + state, rel=1e-6)
    assert losses.field_loss(logits, targets, 0.0).item() == pytest.approx(hist, rel=1e-6)


def test_a_class_that_a_factor_has_not_takes_no_part() -> None:
    heads = OrbitHeads(16)
    hidden = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    other = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
    labels = torch.zeros(3, 12, dtype=torch.long)
    one, two = heads(hidden), heads(other)
    alone = torch.zeros(3)
    for k, classes in enumerate(FACTORS.values()):
        p, q = one[:, k, : len(classes)], two[:, k, : len(classes)]
        for logits in (p, q):
            alone += torch.nn.functional.cross_entropy(logits, labels[:, k], reduction="none")
        alone += 0.1 * losses.symmetric_kl(p, q)
    found = losses.orbit_head_loss(one, two, labels, 0.1)
    torch.testing.assert_close(found, alone / 12)
    torch.autograd.backward(found.sum())
    grad = heads.linear.weight.grad
    assert grad is not None and torch.isfinite(grad).all()
    assert not grad[(heads.far != 0).flatten()].any()


def test_soft_cross_entropy_by_hand() -> None:
    target = torch.tensor([[0.5, 0.5, 0.0]])
    assert losses.soft_cross_entropy(torch.zeros(1, 3), target).item() == pytest.approx(LN3)


def test_auxiliary_weights_wait_and_then_rise() -> None:
    assert [losses.ramp(u, 8, 32) for u in (0, 7, 8, 39, 100)] == [0, 0, 1 / 32, 1, 1]
    assert losses.ramp(0, 0, 0) == 1


def test_arms_are_weights() -> None:
    stage = StageTwo()
    assert weights(stage, "decision") == (0, 0)
    assert weights(stage, "orbit") == (0.05, 0)
    assert weights(stage, "field") == (0, 0.05)
    assert weights(stage, "scd") == (0.05, 0.05)


def test_heads_have_the_shapes_of_the_appendix() -> None:
    heads = Heads(16, 0)
    assert heads.orbit(torch.zeros(3, 16)).shape[:2] == (3, 12) and len(FACTORS) == 12
    assert heads.field.hidden.in_features == 16 + 12 * EMBEDDING
    assert heads.field.hidden.out_features == HIDDEN == 512
    assert heads.field.dropout.p == 0.05
    rho = torch.zeros(3, 12, dtype=torch.long)
    assert heads.field(torch.zeros(3, 16), rho).shape == (3, len(FIELD_WIDTHS), 10)
    there = (heads.field.targets.far == 0).sum(1).tolist()
    assert there == list(FIELD_WIDTHS.values())
    again = Heads(16, 0)
    assert torch.equal(again.field.hidden.weight, heads.field.hidden.weight)
    assert not torch.equal(Heads(16, 1).field.hidden.weight, heads.field.hidden.weight)
