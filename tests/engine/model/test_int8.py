"""Products in 8-bit integers are near those in float32, and each row's is its own."""

import timeit
from collections.abc import Callable
from time import process_time

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.engine.helpers import prompts
from waggle.core.errors import ConfigError
from waggle.engine.backends.lean import LeanBackend
from waggle.engine.engine import Engine
from waggle.engine.model import int8
from waggle.engine.model.int8 import LARGEST, Int8Linear, quantized
from waggle.engine.model.linear import GateUp, Linear, TorchOperations
from waggle.models.nano import tiny_random

pytestmark = pytest.mark.skipif(not int8.int8_works(), reason="no 8-bit products in this torch")
NEAR = 0.02
"""Largest error, as a part of the lengths of what is multiplied."""


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def error(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("rows", [1, 17, 300])
@pytest.mark.parametrize("biased", [False, True])
def test_products_are_near_those_in_float32(rows: int, biased: bool) -> None:
    weight, x, residual = drawn(48, 64), drawn(rows, 64, seed=1), drawn(rows, 48, seed=2)
    weight[7] *= 100  # one output is much larger than the others
    x[0] *= 0.01  # and one row much smaller
    bias = drawn(48, seed=3) if biased else None
    product, wanted = Int8Linear(weight, bias), F.linear(x, weight, bias)
    off = (product(x) - wanted).abs()
    assert off.any() and (off <= NEAR * x.norm(dim=1)[:, None] * weight.norm(dim=1)).all()
    assert torch.allclose(product.add(x, residual.clone()), residual + product(x), atol=1e-3)


def test_gated_products_are_near_those_in_float32() -> None:
    gate, up, x = drawn(48, 64), drawn(48, 64, seed=1), drawn(9, 64, seed=2)
    join = TorchOperations().gate
    found = GateUp(gate, up, Int8Linear)(x, join)
    assert 0 < error(found, GateUp(gate, up)(x, join)) < NEAR


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    product, x = Int8Linear(drawn(48, 64)), drawn(300, 64, seed=1)
    together = product(x)
    for rows in (slice(0, 1), slice(5, 22), slice(140, 300)):
        assert torch.equal(product(x[rows]), together[rows])


def test_products_are_not_left_to_a_slow_routine() -> None:
    """Two signed integers take a thousand times as long on x86; half the time is usual."""
    weight, x = drawn(256, 256), drawn(64, 256, seed=1)
    product = Int8Linear(weight)

    def seconds(work: Callable[[Tensor], Tensor]) -> float:
        return min(timeit.repeat(lambda: work(x), timer=process_time, number=9, repeat=3))

    assert seconds(product) < 30 * seconds(Linear(weight))


def test_rows_are_rounded_to_their_own_scale() -> None:
    x = torch.cat((drawn(4, 32), torch.zeros(1, 32)))
    rounded, scale = quantized(x)
    assert rounded.dtype == torch.int8 and rounded[:4].abs().amax(1).tolist() == [LARGEST] * 4
    assert ((rounded * scale - x).abs() <= 0.501 * scale).all()
    assert not Int8Linear(drawn(8, 32))(x)[4].any()


def test_an_engine_rounds_its_blocks_and_not_its_head() -> None:
    model, tokenizer = tiny_random()
    engine = Engine(model, tokenizer, max_rows=4, int8=True)
    assert isinstance(engine.backend, LeanBackend)
    decoder = engine.backend.decoder
    assert all(
        isinstance(part, Int8Linear) for part in (decoder.layers[0].qkv, decoder.layers[-1].down)
    )
    assert decoder.head.weight.dtype == torch.float32
    asked = prompts(tokenizer, 6)
    answers = engine.generate(asked)
    assert [len(answer.tokens) for answer in answers] == [16] * 6
    plain = Engine(model, tokenizer, max_rows=4).backend
    assert isinstance(plain, LeanBackend)
    assert plain.decoder.parameters() == decoder.parameters()


def test_what_cannot_be_rounded_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="use auto"):
        Int8Linear(drawn(8, 16).bfloat16())
    monkeypatch.setattr(int8, "int8_works", lambda: False)
    with pytest.raises(ConfigError, match="use auto"):
        Int8Linear(drawn(8, 16))


def test_a_model_that_the_engine_does_not_run_itself_is_refused() -> None:
    model, tokenizer = tiny_random()
    model.peft_config = {}
    with pytest.raises(ConfigError, match="use dtype auto"):
        Engine(model, tokenizer, int8=True)
