"""Losses against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from waggle.core.summary import FACTORS
from waggle.scd import losses
from waggle.scd.config import StageTwo, weights
from waggle.scd.heads import EMBEDDING, FIELD_WIDTHS, HIDDEN, Heads

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
    found = losses.orbit_head_loss([even, even], [skewed, skewed], labels, 0.1)
    first = LN2 - math.log(0.25) + 0.1 * skl
    second = LN2 - math.log(0.75) + 0.1 * skl
    assert found.item() == pytest.approx((first + second) / 2)


def test_orbit_accuracy_is_the_share_of_factors() -> None:
    logits = [torch.tensor([[2.0, 0.0]]), torch.tensor([[2.0, 0.0]])]
    assert losses.orbit_accuracy(logits, torch.tensor([[0, 1]])).item() == 0.5


def test_field_loss_gives_both_groups_equal_weight() -> None:
    logits = {name: torch.zeros(1, n) for name, n in FIELD_WIDTHS.items()}
    targets = {name: torch.full((1, FIELD_WIDTHS[name]), 1.0 / FIELD_WIDTHS[name])
               for name in losses.HISTOGRAMS}  # fmt: skip
    targets |= {"ready": torch.tensor([1]), "commitment": torch.tensor([5])}
    hist = (3 * math.log(6) + math.log(10)) / 4
    state = (math.log(2) + math.log(6)) / 2
    assert losses.field_loss(logits, targets).item() == pytest.approx(hist + state, rel=1e-6)
    assert losses.field_loss(logits, targets, 0.0).item() == pytest.approx(hist, rel=1e-6)


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
    assert len(heads.orbit.factors) == 12 == len(FACTORS)
    assert heads.field.hidden.in_features == 16 + 12 * EMBEDDING
    assert heads.field.hidden.out_features == HIDDEN == 512
    assert heads.field.dropout.p == 0.05
    rho = torch.zeros(3, 12, dtype=torch.long)
    shapes = {k: v.shape for k, v in heads.field(torch.zeros(3, 16), rho).items()}
    assert shapes == {name: (3, n) for name, n in FIELD_WIDTHS.items()}
    again = Heads(16, 0)
    assert torch.equal(again.field.hidden.weight, heads.field.hidden.weight)
    assert not torch.equal(Heads(16, 1).field.hidden.weight, heads.field.hidden.weight)
