"""Rates and loss weights: plain numbers, or tensors that recorded updates go on reading."""

from __future__ import annotations

import pytest
import torch

from waggle.scd.config import StageOne, StageTwo
from waggle.scd.heads import Heads
from waggle.scd.train.distributed import Processes
from waggle.scd.train.optimizer import Changing, Descent

STAGE = StageOne(updates=10, rate=0.5, rate_warm_up=4)


def descent(stage: StageOne | StageTwo, heads: Heads | None, *, replayed: bool) -> Descent:
    trained = {"w": torch.nn.Parameter(torch.ones(3))}
    return Descent(trained, heads, stage, "cpu", Changing("cpu", replayed=replayed))


def test_a_replayed_number_changes_in_place() -> None:
    changing = Changing("cpu", replayed=True)
    known = changing.make(0.5)
    assert changing.set(known, 0.25) is known and float(known) == 0.25
    assert Changing("cpu", replayed=False).set(0.5, 0.25) == 0.25


@pytest.mark.parametrize("replayed", [False, True])
def test_rates_follow_the_schedule(replayed: bool) -> None:
    found = descent(STAGE, None, replayed=replayed)
    (group,) = found.state()["param_groups"]
    first = group["lr"]
    found.set_rates(1, 0.0)
    (group,) = found.state()["param_groups"]
    assert float(group["lr"]) == 0.25
    assert (group["lr"] is first) == replayed


def test_heads_have_a_rate_of_their_own_in_stage_two() -> None:
    heads = Heads(8, 0)
    second = descent(StageTwo(rate=0.5, head_rate=0.125), heads, replayed=False)
    assert [group["lr"] for group in second.state()["param_groups"]] == [0.5, 0.125]
    assert len(descent(STAGE, heads, replayed=False).state()["param_groups"]) == 1


def test_backbone_and_heads_are_clipped_apart() -> None:
    weight, heads = torch.nn.Parameter(torch.zeros(1)), Heads(8, 0)
    stage = StageTwo(rate=0.5, head_rate=0.5, clip=1.0)
    found = Descent({"w": weight}, heads, stage, "cpu", Changing("cpu", replayed=False))
    weight.grad = torch.tensor([100.0])
    for parameter in heads.parameters():
        parameter.grad = torch.zeros_like(parameter)
    norms = found.step(Processes())
    assert float(norms["gradient.backbone"]) == 100.0 and float(norms["gradient.heads"]) == 0.0
    assert weight.grad is not None and float(weight.grad) == pytest.approx(1.0)
    found.forget()
    assert weight.grad is None


def test_a_checkpoint_says_nothing_of_how_the_optimizer_runs() -> None:
    one, two = (descent(STAGE, None, replayed=replayed) for replayed in (False, True))
    two.resume(one.state())
    (group,) = two.state()["param_groups"]
    assert group["capturable"] and isinstance(group["lr"], torch.Tensor)
