"""Products are those of the plain matrices, whatever the layout of the weights."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.model import linear
from waggle.engine.model.linear import GateUp, Linear, TorchOperations, rms_norm


def wave(*shape: int, step: float = 0.37) -> Tensor:
    return (torch.arange(torch.Size(shape).numel()) * step).sin().view(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_are_those_of_torch(dtype: torch.dtype) -> None:
    for shape in ((7, 48), (5, 3, 16)):
        x, weight = wave(*shape).to(dtype), wave(shape[-1], step=0.9).to(dtype)
        found = rms_norm(x, weight, 1e-5)
        wanted = F.rms_norm(x, (shape[-1],), weight, 1e-5)
        assert found.dtype == dtype
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("rows", [1, 17, 128, 129, 300])
@pytest.mark.parametrize("biased", [False, True])
def test_products_in_float32(rows: int, biased: bool) -> None:
    weight, x = wave(24, 40), wave(rows, 40)
    bias = wave(24) if biased else None
    product = Linear(weight, bias)
    wanted = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert torch.allclose(product(x).double(), wanted, atol=1e-5)
    residual = wave(rows, 24)
    assert torch.allclose(product.add(x, residual.clone()).double(), residual + wanted, atol=1e-5)


def test_many_rows_take_the_plain_product() -> None:
    weight, x = wave(24, 40), wave(300, 40)
    assert torch.equal(Linear(weight)(x), F.linear(x, weight))


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bfloat16 says so once
@pytest.mark.parametrize("rows", [1, 40, 300], ids=["few", "packed", "many"])
@pytest.mark.parametrize("fuses", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_and_what_follows_them(
    rows: int, fuses: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a product is computed, gating and adding give what they give by themselves."""
    if not fuses:
        monkeypatch.setattr(linear, "_fuses", lambda _: False)
    x, residual = wave(rows, 32).to(dtype), wave(rows, 48, step=0.9).to(dtype)
    gate, up = (wave(48, 32, step=step).to(dtype) for step in (0.2, 0.6))
    bias = wave(48, step=0.3).to(dtype)
    left, right = (x.float() @ part.float().T for part in (gate, up))
    want = torch.nn.functional.silu(left) * right
    close = {"rtol": 0.02, "atol": 0.2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(GateUp(gate, up)(x, TorchOperations().gate).float(), want, **close)
    for given in (None, bias):
        added = 0.0 if given is None else given.float()
        want = residual.float() + left + added
        found = Linear(gate, given).add(x, residual.clone())
        torch.testing.assert_close(found.float(), want, **close)
