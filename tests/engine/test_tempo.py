"""Which drafts pay on a large GPU, by the sizes of the laws that ship."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from waggle.engine import tempo
from waggle.engine.effort import Effort
from waggle.engine.stores import Shape

CAPACITY = 896


def decoder(layers: int, heads: int, kv_heads: int, parameters: int) -> Any:
    shape = Shape(layers, 64 * heads, heads, kv_heads, 64, 49_152, 1e-5)
    return SimpleNamespace(shape=shape, dtype=torch.bfloat16, parameters=lambda: parameters)


SMOLLM2 = decoder(30, 9, 3, 134_000_000)
NANO = decoder(8, 5, 5, 10_000_000)


def used(length: int, given: float) -> Effort:
    """What answers of this length take a host that foretells them in so many seconds."""
    seen = Effort()
    for _ in range(3_000):
        seen.closed(length)
        seen.foretold(given)
    return seen


@pytest.mark.parametrize("rows", [16, 64, 256])
def test_the_teacher_foretells_for_smollm2_and_not_for_nano(rows: int) -> None:
    for given in (0.1e-3, 0.25e-3, 0.4e-3):
        assert tempo.foretells(rows, used(54, given), SMOLLM2, CAPACITY)
    assert tempo.foretells(rows, Effort(), SMOLLM2, CAPACITY)
    if rows >= 64:
        assert not tempo.foretells(rows, used(20, 0.1e-3), NANO, CAPACITY)
    assert not tempo.foretells(rows, used(54, 5e-3), SMOLLM2, CAPACITY), "a very slow host"


def test_prompts_hide_what_is_foretold_meanwhile() -> None:
    long, short = used(54, 0.9e-3), used(54, 0.9e-3)
    long.tokens = 3_000.0
    assert tempo.foretells(256, long, SMOLLM2, CAPACITY)
    assert not tempo.foretells(256, short, SMOLLM2, CAPACITY)
