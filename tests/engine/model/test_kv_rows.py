"""Caches of whole rows: prefixes copied into them, and what they hold when they grow."""

import pytest
import torch
from torch import Tensor

from tests.engine.helpers import TorchKernels
from waggle.engine.model import kv_rows as row_store
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_cache import Piece, PrefixKV
from waggle.engine.model.kv_rows import RowStore

LAYERS = 5
SHAPE = Shape(LAYERS, 8, 16, 2, 1, 4, 1e-5)


def layers(length: int, seed: int) -> list[Tensor]:
    """What a prefix holds in each layer."""
    numbers = torch.Generator().manual_seed(seed)
    return [torch.randn((length, 2, 4), generator=numbers) for _ in range(LAYERS)]


def prefix_of(store: RowStore, kept: list[Tensor]) -> PrefixKV:
    """A prefix as a pass over it would leave it."""
    single = store.single(len(kept[0]))
    for cache, layer in zip(single.tensors()[:-1], kept, strict=True):
        cache[: len(layer)] = layer
    return single.prefix(len(kept[0]))


@pytest.mark.parametrize("stack", [1, 2, 5, 8])
def test_prefixes_lie_in_every_layer_of_their_rows_and_stay_there(
    stack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_store, "STACK", stack)
    store = RowStore(SHAPE, 4, torch.float32, torch.device("cpu"), TorchKernels())
    store.reserve(9, 20)
    kept = [layers(9, 1), layers(6, 2)]
    first, second = (prefix_of(store, each) for each in kept)
    assert first.size == LAYERS * 9 * 8 * 4
    order = [(2, 0), (0, 1), (3, 0)]
    pieces = [Piece(slot, [1, 2], 0) for slot, _ in order]
    store.chunk(pieces, [(first, second)[which] for _, which in order])
    for _ in range(2):
        *caches, _ = store.tensors()
        assert len(caches) == LAYERS
        for index, cache in enumerate(caches):
            rows = cache.view(5, store.capacity, 2, 4)
            for slot, which in order:
                layer = kept[which][index]
                assert torch.equal(rows[slot, : len(layer)], layer)
                assert not rows[slot, len(layer) :].any()
            assert not rows[1].any() and not rows[4].any(), "another row was written to"
        assert store.reserve(9, 20 + store.capacity), "nothing grew"


@pytest.mark.parametrize(
    ("tokens", "rows", "single"), [(0, 0, False), (16, 4, False), (8, 8, True)]
)
def test_a_layout_says_every_number_itself(
    tokens: int, rows: int, single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is written there may be anything before, such as the last layout."""
    store = RowStore(SHAPE, 4, torch.float32, torch.device("cpu"), TorchKernels())
    store.reserve(0, 20)
    pieces = [Piece(slot, [7] * (1 if single else slot + 1), 3) for slot in (0, 2)]

    def laid(number: int) -> Tensor:
        monkeypatch.setattr(
            row_store, "pinned_empty", lambda count, _: torch.full((count,), number)
        )
        return store.layout(pieces, [PrefixKV([], 0)] * 2, tokens, rows, single).values

    assert torch.equal(laid(0), laid(77))
