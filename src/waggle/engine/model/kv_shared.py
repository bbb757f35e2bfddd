"""Caches in which a prefix is kept once for all rows: the store for CPUs.

Queries of all rows are multiplied with the shared prefix in one product; each row's own keys are
attended separately, and the two results are merged (see `attention`). A prefix is attended in whole
processor vectors; its remaining keys are copied before each row's own keys. Rows are packed; only
the attention over own keys is padded, and it reads the caches in place.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from waggle.engine.model import attention
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_cache import (
    SLACK,
    Chunk,
    Piece,
    PrefixKV,
    Store,
    index_tensor,
    round_up,
)
from waggle.engine.model.rope import Rotation

LONG = 32
"""The fewest tokens with which a row is attended alone."""


class Stretch(NamedTuple):
    """Tokens of one row that is long enough to be attended alone."""

    tokens: slice
    slot: int
    first: int
    """Cache position of the first token."""


@dataclass(slots=True)
class Block:
    """Short rows with adjacent cache slots, so that attention needs no copy."""

    tokens: slice
    slots: slice
    steps: int
    grid: tuple[Tensor, Tensor] | None
    """Row and place of each token among `steps` places per row; None if all places are taken."""
    span: int
    """The number of cache positions that are attended."""
    mask: Tensor
    """Additive mask of the cache positions that each place sees."""
    cells: tuple[Tensor, Tensor]
    """Slot and cache position of each token."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.slots.stop - self.slots.start)


@dataclass(slots=True)
class SharedChunk(Chunk):
    """The layout of new tokens, whose rows follow the whole vectors of their prefixes."""

    stretches: list[Stretch]
    blocks: list[Block]
    spans: list[tuple[PrefixKV, slice]]
    """The tokens that follow each prefix."""
    begins: list[tuple[PrefixKV, int]]
    """Slots of starting rows whose prefix does not fill whole vectors."""


class SharedStore(Store):
    """Per-row caches that follow shared prefixes."""

    def __init__(self, shape: Shape, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(shape, rows, dtype, device)
        self._cache: list[tuple[Tensor, Tensor]] = []

    def _needed(self, prefix: int, own: int) -> int:
        """Return the capacity for a row; prefixes are stored elsewhere."""
        return round_up(own + SLACK + attention.WIDTH, 128)

    def _grow(self, rows: int, capacity: int) -> None:
        self.rows, self.capacity = rows, capacity
        self._make(max(1, min(rows, self._made)))

    def widen(self, slots: int) -> None:
        """Make caches for the rows of the first `slots` slots, up to the next power of two."""
        if slots > self._made:
            self._make(min(self.rows, 1 << (slots - 1).bit_length()))

    def _make(self, rows: int) -> None:
        """Move the caches and their contents into ones of this many rows."""
        self._made = rows
        old, self._cache = self._cache, []
        for _ in range(self._shape.layers):
            pair = self._empty()
            if old:  # layer by layer, so that old and new are never both fully in memory
                for fresh, part in zip(pair, old.pop(0), strict=True):
                    kept = min(len(fresh), len(part))
                    fresh[:kept, :, : part.shape[2]] = part[:kept]
            self._cache.append(pair)

    def _empty(self) -> tuple[Tensor, Tensor]:
        size = (self._made, self._shape.kv_heads, self.capacity, self._shape.head_dim)
        first, second = (
            torch.zeros(size, dtype=self._dtype, device=self._device) for _ in range(2)
        )
        return first, second

    def _drop(self) -> None:
        self._cache = []

    def single(self, length: int) -> SharedStore:
        """Return a store of one row."""
        store = SharedStore(self._shape, 1, self._dtype, self._device)
        store.reserve(0, length)
        return store

    def prefix(self, length: int) -> PrefixKV:
        """Return the first row as [2, K, P, D] per layer."""
        rows = [(keys[0, :, :length], values[0, :, :length]) for keys, values in self._cache]
        return PrefixKV([torch.stack(pair) for pair in rows], length)

    def cut(self, prefix: PrefixKV, length: int) -> PrefixKV:
        """Return the beginning of a prefix as a separate prefix."""
        return PrefixKV([layer[:, :, :length].clone() for layer in prefix.layers], length)

    def chunk(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> SharedChunk:
        """Lay out a batch of rows."""
        sizes = [len(piece.tokens) for piece in pieces]
        ahead = [_left(prefix) for prefix in prefixes]
        firsts = [piece.start + left for piece, left in zip(pieces, ahead, strict=True)]
        edges = [0, *itertools.accumulate(sizes)]
        positions = [
            range(piece.start + prefix.length, piece.start + prefix.length + size)
            for piece, prefix, size in zip(pieces, prefixes, sizes, strict=True)
        ]
        return SharedChunk(
            tokens=self._index([*itertools.chain.from_iterable(p.tokens for p in pieces)]),
            positions=self._index([*itertools.chain.from_iterable(positions)]),
            stretches=[
                Stretch(slice(edges[row], edges[row + 1]), piece.slot, firsts[row])
                for row, piece in enumerate(pieces)
                if sizes[row] >= LONG
            ],
            blocks=[self._block(pieces, firsts, edges, *run) for run in _runs(pieces)],
            spans=_spans(prefixes, sizes),
            begins=[
                (prefix, piece.slot)
                for prefix, piece, left in zip(prefixes, pieces, ahead, strict=True)
                if left and not piece.start
            ],
        )

    def _block(
        self, pieces: Sequence[Piece], firsts: list[int], edges: list[int], begin: int, end: int
    ) -> Block:
        """Lay out adjacent short rows as a block."""
        sizes, firsts = [len(piece.tokens) for piece in pieces[begin:end]], firsts[begin:end]
        steps, slot = max(sizes), pieces[begin].slot
        span = round_up(max(map(sum, zip(firsts, sizes, strict=True))), attention.WIDTH)
        rows = self._index([row for row, size in enumerate(sizes) for _ in range(size)])
        places = self._index([place for size in sizes for place in range(size)])
        starts = self._index(firsts)
        seen = starts[:, None] + torch.arange(steps, device=self._device)
        return Block(
            tokens=slice(edges[begin], edges[end]),
            slots=slice(slot, slot + end - begin),
            steps=steps,
            grid=None if min(sizes) == steps else (rows, places),
            span=span,
            mask=attention.visibility(seen, span, self._shape.groups, self._dtype),
            cells=(rows + slot, starts[rows] + places),
        )

    def _index(self, values: Sequence[int]) -> Tensor:
        return index_tensor(values, self._device)

    def attend(self, index: int, qkv: Tensor, rotation: Rotation, chunk: Chunk) -> Tensor:
        """Store new keys and values, and attend over the prefix and each row's own keys."""
        assert isinstance(chunk, SharedChunk)
        q, kv = rotation.apply(qkv)
        cache = self._cache[index]
        for prefix, slot in chunk.begins:
            left = _left(prefix)
            for kept, part in zip(cache, prefix.layers[index], strict=True):
                kept[slot, :, :left] = part[:, -left:]
        out, lse = torch.empty_like(q), q.new_empty(q.shape[:2], dtype=torch.float32)
        fresh = kv.chunk(2, dim=1)
        for tokens, slot, first in chunk.stretches:
            last = first + tokens.stop - tokens.start
            for kept, part in zip(cache, fresh, strict=True):
                kept[slot, :, first:last] = part[tokens].transpose(0, 1)
            keys, values = (kept[slot] for kept in cache)
            into = out[tokens], lse[tokens]
            attention.attend_row(q[tokens], keys, values, self._scale, first, into)
        for block in chunk.blocks:
            slots, places = block.cells
            for kept, part in zip(cache, fresh, strict=True):
                kept[slots, :, places] = part[block.tokens]
            out[block.tokens], lse[block.tokens] = self._own(index, q[block.tokens], block)
        for prefix, span in chunk.spans:
            vectors = prefix.length - _left(prefix)
            if vectors:
                keys, values = prefix.layers[index][:, :, :vectors]
                seen = attention.attend_prefix(q[span], keys, values, self._scale)
                merged = attention.merge(seen, (out[span], lse[span]))
                if len(chunk.spans) == 1:
                    return merged
                out[span] = merged
        return out

    def _own(self, index: int, q: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Attend over each row's own keys; flat in, flat out."""
        keys, values = (cache[block.slots, :, : block.span] for cache in self._cache[index])
        padded = _pad(q, block)
        out, lse = attention.attend_cached(padded, keys, values, self._scale, block.mask)
        return _flatten(out, block), _flatten(lse, block)


def _left(prefix: PrefixKV) -> int:
    """Return how many keys of a prefix are left after its whole vectors."""
    return prefix.length % attention.WIDTH


def _runs(pieces: Sequence[Piece]) -> list[tuple[int, int]]:
    """Return the [begin, end) runs of short rows that are consecutive and have adjacent slots."""
    found: list[tuple[int, int]] = []
    for row, piece in enumerate(pieces):
        if len(piece.tokens) >= LONG:
            continue
        if found and found[-1][1] == row and pieces[row - 1].slot + 1 == piece.slot:
            found[-1] = found[-1][0], row + 1
        else:
            found.append((row, row + 1))
    return found


def _spans(prefixes: Sequence[PrefixKV], sizes: Sequence[int]) -> list[tuple[PrefixKV, slice]]:
    """Return each prefix with the slice of tokens after it, joining adjacent rows."""
    found: list[tuple[PrefixKV, slice]] = []
    first = 0
    for prefix, size in zip(prefixes, sizes, strict=True):
        if found and found[-1][0] is prefix:
            found[-1] = (prefix, slice(found[-1][1].start, first + size))
        else:
            found.append((prefix, slice(first, first + size)))
        first += size
    return found


def _pad(flat: Tensor, block: Block) -> Tensor:
    if block.grid is None:
        return flat.reshape(block.rows, block.steps, *flat.shape[1:])
    padded = flat.new_zeros(block.rows, block.steps, *flat.shape[1:])
    padded[block.grid] = flat
    return padded


def _flatten(padded: Tensor, block: Block) -> Tensor:
    if block.grid is None:
        return padded.reshape(-1, *padded.shape[2:])
    return padded[block.grid]
