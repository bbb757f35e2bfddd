"""Rates and clipping: plain numbers, or tensors that a CUDA graph goes on reading."""

from __future__ import annotations

import pytest
import torch

from waggle.scd.config import StageOne, StageTwo
from waggle.scd.heads import Heads
from waggle.scd.train.cuda_graph import Scalars
from waggle.scd.train.distributed import Processes
from waggle.scd.train.optimizer import Optimizer, rate_factor

STAGE = StageOne(updates=10, rate=0.5, rate_warm_up=4)


def optimizer(stage: StageOne | StageTwo, heads: Heads | None, *, replayed: bool) -> Optimizer:
    trained = {"w": torch.nn.Parameter(torch.ones(3))}
    return Optimizer(trained, heads, stage, Scalars("cpu", replayed=replayed))


def test_a_replayed_number_changes_in_place() -> None:
    scalars = Scalars("cpu", replayed=True)
    known = scalars.set(None, 0.5)
    assert scalars.set(known, 0.25) is known and float(known) == 0.25
    assert Scalars("cpu", replayed=False).set(0.5, 0.25) == 0.25


@pytest.mark.parametrize("replayed", [False, True])
def test_rates_follow_the_schedule(replayed: bool) -> None:
    found = optimizer(STAGE, None, replayed=replayed)
    (group,) = found.state()["param_groups"]
    first = group["lr"]
    found.set_rates(1, 0.0)
    (group,) = found.state()["param_groups"]
    assert float(group["lr"]) == 0.25
    assert (group["lr"] is first) == replayed


def test_heads_have_a_rate_of_their_own_in_stage_two() -> None:
    heads = Heads(8, 0)
    second = optimizer(StageTwo(rate=0.5, head_rate=0.125), heads, replayed=False)
    assert [group["lr"] for group in second.state()["param_groups"]] == [0.5, 0.125]
    assert len(optimizer(STAGE, heads, replayed=False).state()["param_groups"]) == 1


def test_backbone_and_heads_are_clipped_apart() -> None:
    weight, heads = torch.nn.Parameter(torch.zeros(1)), Heads(8, 0)
    stage = StageTwo(rate=0.5, head_rate=0.5, clip=1.0)
    found = Optimizer({"w": weight}, heads, stage, Scalars("cpu", replayed=False))
    weight.grad = torch.tensor([100.0])
    for parameter in heads.parameters():
        parameter.grad = torch.zeros_like(parameter)
    norms = found.step(Processes())
    assert float(norms["gradient.backbone"]) == 100.0 and float(norms["gradient.heads"]) == 0.0
    assert weight.grad is not None and float(weight.grad) == pytest.approx(1.0)
    found.clear()
    assert weight.grad is None


def test_a_checkpoint_says_nothing_of_how_the_optimizer_runs() -> None:
    one, two = (optimizer(STAGE, None, replayed=replayed) for replayed in (False, True))
    two.resume(one.state())
    (group,) = two.state()["param_groups"]
    assert group["capturable"] and isinstance(group["lr"], torch.Tensor)


def test_rates_rise_and_fall() -> None:
    stage = StageOne(updates=10, rate_warm_up=2)
    factors = [rate_factor(stage, u) for u in range(10)]
    assert factors[:3] == [0.5, 1.0, 1.0]
    assert factors[2:] == sorted(factors[2:], reverse=True)


def test_the_rate_follows_the_share_of_a_time_budget() -> None:
    stage = StageOne(updates=1_000_000, rate_warm_up=0, seconds=10.0)
    assert rate_factor(stage, 5, 0.0) == pytest.approx(1.0)
    assert rate_factor(stage, 5, 0.5) == pytest.approx(0.5)
    assert rate_factor(stage, 5, 1.2) == pytest.approx(0.0)
    few = stage.model_copy(update={"updates": 105, "rate_warm_up": 5})
    assert rate_factor(few, 55, 0.2) == pytest.approx(0.5)  # updates are spent sooner
    assert rate_factor(few, 105, 0.2) == pytest.approx(0.0)
