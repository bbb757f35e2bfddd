"""Dropout by a hash: the right share, no pattern, one mask per pair of words."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from waggle.scd.config import Recipe
from waggle.scd.data.flats import laid
from waggle.scd.forward import hashed, lean
from waggle.scd.model import Student
from waggle.scd.train.sprint import nll_of

WORDS = torch.randint(-(2**31), 2**31 - 1, (40, 2), dtype=torch.int32,
                      generator=torch.Generator().manual_seed(0))  # fmt: skip


def mask(words: Tensor, share: float = 0.05, rows: int = 512, width: int = 256) -> Tensor:
    return hashed.dropped(torch.ones(rows, width), share, words) == 0


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_the_share_is_dropped_and_the_rest_keeps_the_mean(share: float) -> None:
    count = 512 * 256
    for words in WORDS[:8]:
        gone = float(mask(words, share).float().mean())
        assert abs(gone - share) < 5 * (share * (1 - share) / count) ** 0.5
    kept = hashed.dropped(torch.ones(4, 4), share, WORDS[0])
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
    one, other = (hashed.dropped(states, 0.3, WORDS[0]) for _ in range(2))
    assert torch.equal(one, other)
    assert not torch.equal(one, hashed.dropped(states, 0.3, WORDS[1]))
    (gradient,) = torch.autograd.grad(one.sum(), states)
    torch.testing.assert_close(gradient, (one != 0) / 0.7)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_compiled_adapters_draw_new_masks_from_the_seed_of_their_update(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    student = Student(recipe, 0)
    modules = [m for m in student.model.modules() if lean._plain_lora(m)]
    from waggle.scd.forward.forward import decoder_of

    hashed.install(decoder_of(student.model), modules)
    with torch.no_grad():
        for name, weight in student.trainable().items():
            if "lora_B" in name:
                weight.fill_(0.1)
    flat = laid(np.arange(3, 53), np.array([25, 25]), np.array([20, 20]), device="cpu")

    def loss(seed: int) -> float:
        torch.manual_seed(seed)
        return float(nll_of(student.model, flat).sum().detach())

    student.model.train()
    first = [m.words for m in modules]
    assert loss(1) == loss(1) != loss(2)
    drawn = torch.stack([m.words for m in modules])
    assert len(first) == len(drawn.unique(dim=0)) == len(modules) > 1
    student.model.eval()
    assert loss(1) == loss(2)
    assert not [name for name in student.model.state_dict() if "words" in name]
