"""Products are those of the plain matrices, whatever the layout of the weights."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.model.linear import Linear


def wave(*shape: int) -> Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float32) * 0.37).sin().view(shape)


@pytest.mark.parametrize("rows", [1, 17, 128, 129, 300])
@pytest.mark.parametrize("biased", [False, True])
def test_products_in_float32(rows: int, biased: bool) -> None:
    weight, x = wave(24, 40), wave(rows, 40)
    bias = wave(24) if biased else None
    linear = Linear(weight, bias)
    wanted = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert torch.allclose(linear(x).double(), wanted, atol=1e-5)
    residual = wave(rows, 24)
    assert torch.allclose(linear.add(x, residual.clone()).double(), residual + wanted, atol=1e-5)


def test_many_rows_take_the_plain_product() -> None:
    weight, x = wave(24, 40), wave(300, 40)
    assert torch.equal(Linear(weight)(x), F.linear(x, weight))
