"""Which drafts pay on a large GPU, by the sizes of the laws that ship."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from waggle.engine import tempo
from waggle.engine.effort import Effort
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_cache import SLACK

CAPACITY = 896


def decoder(layers: int, heads: int, kv_heads: int, parameters: int) -> Any:
    shape = Shape(layers, 64 * heads, 128, heads, kv_heads, 64, 1e-5)
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


def test_fewer_tokens_are_tried_the_more_rows_or_weights_there_are() -> None:
    large = decoder(36, 32, 8, 4_000_000_000)
    for made, reaches in ((NANO, [16, 16, 16]), (SMOLLM2, [16, 8, 8]), (large, [4, 1, 1])):
        assert [tempo.reach(rows, made, CAPACITY) for rows in (64, 256, 512)] == reaches
    assert 0.2 < tempo.recalls(64, SMOLLM2, CAPACITY) < 0.6
    assert tempo.recalls(256, large, CAPACITY) == 1.0, "where none is tried, none would pay"
    assert max(tempo.REACHES) < SLACK, "what is tried stays in the cache of its row"


def test_a_host_drafts_less_where_rolled_rows_recall_much() -> None:
    seen = Effort()
    before = tempo.least(64, seen, SMOLLM2, CAPACITY)
    assert tempo.foretells(64, seen, SMOLLM2, CAPACITY)
    for _ in range(40):
        seen.recalled(700, 100)
    assert 6.5 < seen.stride < 7.0
    assert before < tempo.least(64, seen, SMOLLM2, CAPACITY)
    few = Effort()
    few.recalled(100, 100)
    assert tempo.least(64, few, SMOLLM2, CAPACITY) == before, "what is never right costs nothing"
