"""Caches behind shared prefixes give what plain attention over everything a row holds gives."""

from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from tests.engine.helpers import TorchKernels
from waggle.engine.model import attention
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_cache import Piece, PrefixKV, Store, position_bytes
from waggle.engine.model.kv_rows import RowStore
from waggle.engine.model.kv_shared import SharedStore
from waggle.engine.model.rope import Rotation

SHAPE = Shape(
    layers=2, hidden=32, heads=4, kv_heads=2, head_dim=8, inner=48, epsilon=1e-5
)  # fmt: skip
HEADS = SHAPE.heads, SHAPE.kv_heads, SHAPE.kv_heads


class Row(NamedTuple):
    """Where a row lies, its prefix, and how many tokens each pass gives it."""

    slot: int
    prefix: int
    sizes: tuple[int, ...]


def drawn(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return queries, and keys with values, of some tokens."""
    values = torch.randn(
        count, sum(HEADS), SHAPE.head_dim, generator=torch.Generator().manual_seed(seed)
    )
    return values[:, : HEADS[0]], values[:, HEADS[0] :]


def attended(held: SharedStore, layer: int, q: Tensor, kv: Tensor, chunk: Any) -> Tensor:
    """Attend with queries and keys that are rotated by nothing."""
    still = torch.ones(len(q), 1, SHAPE.head_dim), torch.zeros(len(q), 1, SHAPE.head_dim)
    rotation = Rotation(*still, None, None, SHAPE.epsilon, SHAPE.heads, SHAPE.kv_heads)
    return held.attend(layer, torch.cat((q, kv), dim=1), rotation, chunk)


def plain(q: Tensor, kv: Tensor) -> Tensor:
    """Attend over all keys of a row; the queries are those of its last tokens."""
    keys, values = (
        part.repeat_interleave(SHAPE.groups, dim=1) for part in kv.chunk(2, dim=1)
    )  # fmt: skip
    scores = torch.einsum("qhd,khd->hqk", q, keys) * SHAPE.head_dim**-0.5
    hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(len(kv) - len(q) + 1)
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values)


def store(rows: int = 12) -> SharedStore:
    return SharedStore(SHAPE, rows, torch.float32, torch.device("cpu"))


def prefix_of(length: int) -> tuple[PrefixKV, Tensor]:
    """Return a prefix that was run, and its keys and values as they were given."""
    if not length:
        return PrefixKV([], 0), drawn(0, 0)[1]
    single = store().single(length)
    chunk = single.chunk([Piece(0, [1] * length, 0)], [PrefixKV([], 0)])
    q, kv = drawn(length, 1000 + length)
    for layer in range(SHAPE.layers):
        found = attended(single, layer, q, kv, chunk)
        torch.testing.assert_close(found, plain(q, kv))
    return single.prefix(length), kv


CASES = {
    "one row": [Row(0, 40, (33, 1, 5))],
    "a prefix of whole vectors": [Row(2, 32, (16, 3)), Row(3, 32, (7, 1))],
    "a prefix shorter than a vector": [Row(0, 5, (11, 2)), Row(1, 5, (1, 1))],
    "no prefix": [Row(4, 0, (16, 2)), Row(5, 0, (20, 1))],
    "slots apart": [
        Row(1, 23, (9, 4)),
        Row(2, 23, (30, 1)),
        Row(7, 23, (5, 6)),
        Row(9, 23, (2, 2)),
    ],
    "several prefixes": [
        Row(0, 23, (9, 4)),
        Row(1, 40, (9, 4)),
        Row(2, 0, (3, 1)),
        Row(8, 7, (50, 9)),
    ],
    "slots out of order": [Row(6, 17, (9, 4)), Row(5, 17, (4, 9)), Row(0, 23, (1, 1))],
}


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES.keys())
def test_attention_is_that_over_the_whole_row(rows: list[Row]) -> None:
    """Prompts, then steps of several tokens; caches hold what other rows left before."""
    held = store()
    held.reserve(64, 80)
    held.widen(12)
    for cache in held._cache:
        for part in cache:
            part.normal_(generator=torch.Generator().manual_seed(7))
    known = {row.prefix: prefix_of(row.prefix) for row in rows}
    seen = [known[row.prefix][1] for row in rows]
    starts = [0] * len(rows)
    random = Random(3)
    for turn in range(max(len(row.sizes) for row in rows)):
        sizes = [row.sizes[turn] for row in rows]
        pieces = [
            Piece(row.slot, [1] * size, start)
            for row, size, start in zip(rows, sizes, starts, strict=True)
        ]
        chunk = held.chunk(pieces, [known[row.prefix][0] for row in rows])
        q, kv = drawn(sum(sizes), random.randrange(1 << 30))
        positions = [r.prefix + p.start + i for r, p in zip(rows, pieces, strict=True)
                  for i in range(len(p.tokens))]  # fmt: skip
        assert chunk.positions.tolist() == positions
        seen = [torch.cat(pair) for pair in zip(seen, kv.split(sizes), strict=True)]
        wanted = torch.cat([plain(*pair) for pair in zip(q.split(sizes), seen, strict=True)])
        for layer in range(SHAPE.layers):
            torch.testing.assert_close(attended(held, layer, q, kv, chunk), wanted)
        starts = [start + size for start, size in zip(starts, sizes, strict=True)]


def test_a_row_that_begins_beside_one_that_goes_on() -> None:
    held = store()
    held.reserve(23, 80)
    held.widen(5)
    prefix, before = prefix_of(23)
    q, first = drawn(9, 1)
    attended(held, 0, q, first, held.chunk([Piece(3, [1] * 9, 0)], [prefix]))
    q, kv = drawn(2 + 6, 2)
    pieces = [Piece(3, [1] * 2, 9), Piece(4, [1] * 6, 0)]
    found = attended(held, 0, q, kv, held.chunk(pieces, [prefix] * 2))
    torch.testing.assert_close(found[:2], plain(q[:2], torch.cat((before, first, kv[:2]))))
    torch.testing.assert_close(found[2:], plain(q[2:], torch.cat((before, kv[2:]))))


@pytest.mark.parametrize("own", [16, 40, 64, 90, 100, 200])
def test_caches_made_for_short_rows_are_not_made_anew_for_them(own: int) -> None:
    """Captured steps read the caches by address, and would be captured for every call."""
    cpu = torch.device("cpu")
    stores: list[Store] = [store(64), RowStore(SHAPE, 64, torch.float32, cpu, TorchKernels())]
    for held in stores:
        held.limit = 8 * 128 * position_bytes(SHAPE, torch.float32)
        held.reserve(0, own)
        assert held.rows < 64 and not held.shrink(own)
        held.reserve(0, 20 * own)
        assert held.shrink(own) and not held.capacity


@pytest.mark.parametrize("native", [True, False])
def test_heads_share_keys_with_and_without_the_kernels_help(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_groups", lambda: native)
    prefix_of(37)
