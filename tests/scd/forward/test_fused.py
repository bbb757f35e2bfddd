"""Fused modules give what the ordinary ones give; hashed dropout is a fair and named draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor

from waggle.models.nano import tiny_random
from waggle.scd.config import Recipe
from waggle.scd.forward import fused
from waggle.scd.forward.ragged import lay_out
from waggle.scd.forward.run import decoder_of, run
from waggle.scd.model import Student

WORDS = torch.randint(-(2**31), 2**31 - 1, (40, 2), dtype=torch.int32,
                      generator=torch.Generator().manual_seed(0))  # fmt: skip


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
    fused.install(model)
    assert any("lora_A" in name for name in gradients)
    after = model(input_ids=ids).logits
    after.sum().backward()
    assert torch.allclose(before, after, atol=1e-5)
    found = dict(model.named_parameters())
    for name, gradient in gradients.items():
        assert torch.allclose(found[name].grad, gradient, rtol=1e-3, atol=1e-4), name


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed:UserWarning")  # processors without bf16
@pytest.mark.parametrize("kept", [torch.float32, torch.bfloat16])
def test_fused_adapters_compute_in_the_arithmetic_of_autocast(kept: torch.dtype) -> None:
    model = adapted()
    for name, weight in model.named_parameters():
        if "lora_" not in name:
            weight.data = weight.data.to(kept)
    ids = torch.arange(10, 40)[None]
    found = []
    for replaced in (False, True):
        if replaced:
            fused.install(model)
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
    fused.install(model)
    with model.disable_adapter():
        off = model(input_ids=ids).logits
    assert not torch.allclose(off, model(input_ids=ids).logits, atol=1e-3)


def mask(words: Tensor, share: float = 0.05, rows: int = 512, width: int = 256) -> Tensor:
    return fused.hashed_dropout(torch.ones(rows, width), share, words) == 0


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_the_share_is_dropped_and_the_rest_keeps_the_mean(share: float) -> None:
    count = 512 * 256
    for words in WORDS[:8]:
        gone = float(mask(words, share).float().mean())
        assert abs(gone - share) < 5 * (share * (1 - share) / count) ** 0.5
    kept = fused.hashed_dropout(torch.ones(4, 4), share, WORDS[0])
    assert set(kept.unique().tolist()) <= {0.0, torch.tensor(1 / (1 - share)).item()}


def test_rows_columns_neighbours_and_modules_are_independent() -> None:
    share, gone = 0.05, torch.stack([mask(words).float() for words in WORDS]) - 0.05
    each = share * (1 - share)

    def small(product: Tensor) -> bool:
        return bool(product.mean().abs() < 5 * each / product.numel() ** 0.5)

    assert small(gone[1:] * gone[:-1]), "two modules"
    for step in (1, 2, 7, 64, 128):
        assert small(gone[:, step:] * gone[:, :-step]), "two rows"
        assert small(gone[:, :, step:] * gone[:, :, :-step]), "two columns"
    rows, columns = gone.mean(2), gone.mean(1)
    assert float(rows.var()) == pytest.approx(each / 256, rel=0.1)
    assert float(columns.var()) == pytest.approx(each / 512, rel=0.1)


def test_words_fix_the_mask_and_gradients_pass_where_states_do() -> None:
    states = torch.randn(30, 20, generator=torch.Generator().manual_seed(1)).requires_grad_()
    one, other = (fused.hashed_dropout(states, 0.3, WORDS[0]) for _ in range(2))
    assert torch.equal(one, other)
    assert not torch.equal(one, fused.hashed_dropout(states, 0.3, WORDS[1]))
    (gradient,) = torch.autograd.grad(one.sum(), states)
    torch.testing.assert_close(gradient, (one != 0) / 0.7)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_compiled_adapters_draw_new_masks_from_the_seed_of_their_update(
    recipe: Recipe,
) -> None:
    student = Student(recipe, 0)
    modules = [m for m in student.model.modules() if fused.is_plain_lora(m)]
    fused.install_hashed_dropout(decoder_of(student.model), modules)
    with torch.no_grad():
        for name, weight in student.trainable().items():
            if "lora_B" in name:
                weight.fill_(0.1)
    batch = lay_out(np.arange(3, 53), np.array([25, 25]), np.array([20, 20]), device="cpu")

    def loss(seed: int) -> float:
        torch.manual_seed(seed)
        return float(run(student.model, batch).nll.sum().detach())

    student.model.train()
    first = [m.words for m in modules]
    assert loss(1) == loss(1) != loss(2)
    drawn = torch.stack([m.words for m in modules])
    assert len(first) == len(drawn.unique(dim=0)) == len(modules) > 1
    student.model.eval()
    assert loss(1) == loss(2)
    assert not [name for name in student.model.state_dict() if "words" in name]
