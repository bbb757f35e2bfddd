"""Fused modules give what the ordinary ones give."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from waggle.models.nano import tiny_random
from waggle.scd.forward import lean
from waggle.scd.ship.factors import low_rank


def adapted() -> Any:
    torch.manual_seed(0)
    model, _ = tiny_random()
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], lora_dropout=0.0)
    made = get_peft_model(model, config)
    for name, weight in made.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    return made


def test_fused_norms_and_adapters_change_nothing_but_rounding() -> None:
    model = adapted()
    ids = torch.arange(10, 40)[None]
    before = model(input_ids=ids).logits
    before.sum().backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    lean.install(model)
    assert any("lora_A" in name for name in gradients)
    after = model(input_ids=ids).logits
    after.sum().backward()
    assert torch.allclose(before, after, atol=1e-5)
    found = dict(model.named_parameters())
    for name, gradient in gradients.items():
        assert torch.allclose(found[name].grad, gradient, rtol=1e-3, atol=1e-4), name


@pytest.mark.parametrize("kept", [torch.float32, torch.bfloat16])
def test_fused_adapters_compute_in_the_arithmetic_of_autocast(kept: torch.dtype) -> None:
    model = adapted()
    for name, weight in model.named_parameters():
        if "lora_" not in name:
            weight.data = weight.data.to(kept)
    ids = torch.arange(10, 40)[None]
    found = []
    for fused in (False, True):
        if fused:
            lean.install(model)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids).logits
        logits.float().square().mean().backward()
        grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        found.append((logits.detach().float(), torch.cat([g.flatten() for g in grads])))
    for one, other in zip(*found, strict=True):
        assert float((one - other).norm() / one.norm()) < 0.03
    assert {p.dtype for n, p in model.named_parameters() if "lora_" in n} == {torch.float32}


def test_fused_adapters_can_be_switched_off() -> None:
    model = adapted()
    ids = torch.arange(10, 40)[None]
    lean.install(model)
    with model.disable_adapter():
        off = model(input_ids=ids).logits
    assert not torch.allclose(off, model(input_ids=ids).logits, atol=1e-3)


def test_a_low_rank_change_is_recovered_and_padded() -> None:
    generator = torch.Generator().manual_seed(1)
    b, a = torch.randn(12, 3, generator=generator), torch.randn(3, 9, generator=generator)
    for rank in (3, 5, 32):
        first, second = low_rank(b @ a, rank)
        assert first.shape == (rank, 9) and second.shape == (12, rank)
        assert torch.allclose(second @ first, b @ a, atol=1e-4)
