"""Caches in which a prefix is kept once for all rows: the store for CPUs.

Queries of every row meet the shared prefix in one product; each row's own keys are attended apart
and the two results merged (see `waggle.engine.attention`). Rows are packed; only the attention over
own keys is padded.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from waggle.engine import attention
from waggle.engine.stores import (
    SLACK,
    Chunk,
    Piece,
    PrefixKV,
    Shape,
    indices,
    memory_limit,
    position_bytes,
    round_up,
)


@dataclass(slots=True)
class SharedChunk(Chunk):
    """Where each token belongs.

    `grid` places token n in the padded [B,T] grid (None when the grid is full); `slots` and
    `positions` are its cache row and position after the prefix.
    """

    slots: Tensor
    positions: Tensor
    rows: int
    steps: int
    grid: tuple[Tensor, Tensor] | None
    fresh: bool
    """Whether every row starts at position 0, so that nothing cached is read."""
    spans: list[tuple[PrefixKV, slice]]
    """The tokens behind each prefix."""
    mask: Tensor | None = None
    span: int = 0
    cache_rows: Tensor | None = None
    """Cache rows of the batch when they are not simply the first `rows`."""


class SharedStore:
    """Per-row caches behind shared prefixes."""

    def __init__(self, shape: Shape, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self.capacity = 0
        self.limit: int | None = None
        """Bytes for all rows; by default what the device can spare."""
        self._planned = 0, 0
        self._shape = shape
        self._rows = self._most = rows
        self._dtype = dtype
        self._device = device
        self._scale = shape.head_dim**-0.5
        self._cache: list[tuple[Tensor, Tensor]] = []

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows the memory holds when one of this size is among them."""
        capacity = round_up(own + SLACK, 128)
        if capacity <= self.capacity:
            return self._rows
        each = position_bytes(self._shape, self._dtype)
        limit = self.limit or memory_limit(self._device, each * self._rows * self.capacity)
        self._planned = capacity, max(1, min(self._most, limit // (each * capacity)))
        return self._planned[1]

    def reserve(self, prefix: int, own: int) -> bool:
        """Make room for rows of this many own positions; prefixes are kept elsewhere."""
        capacity = max(self.capacity, round_up(own + SLACK, 128))
        if capacity == self.capacity:
            return False
        # What was said to fit is what there will be, though memory may have gone since.
        known = self._planned[0] == capacity
        self._rows = self._planned[1] if known else self.room(prefix, own)
        self.capacity = capacity
        stale, self._cache = self._cache, []
        for _ in range(self._shape.layers):
            pair = self._empty()
            if stale:  # layer by layer, so that both never lie in memory whole
                for fresh, old in zip(pair, stale.pop(0), strict=True):
                    kept = min(len(fresh), len(old))
                    fresh[:kept, :, : old.shape[2]] = old[:kept]
            self._cache.append(pair)
        return True

    def _empty(self) -> tuple[Tensor, Tensor]:
        size = (self._rows, self._shape.kv_heads, self.capacity, self._shape.head_dim)
        first, second = (
            torch.zeros(size, dtype=self._dtype, device=self._device) for _ in range(2)
        )
        return first, second

    def forget(self) -> None:
        """Give all memory back; what rows held is lost."""
        self.capacity, self._rows, self._planned = 0, self._most, (0, 0)
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

    def chunk(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> SharedChunk:
        """Lay out a batch of rows."""
        sizes = [len(piece.tokens) for piece in pieces]
        lengths = self._index(sizes)
        rows, steps = len(pieces), max(sizes)
        row_of = torch.arange(rows, device=self._device).repeat_interleave(
            lengths, output_size=sum(sizes)
        )
        first = lengths.cumsum(0) - lengths
        step_of = torch.arange(row_of.shape[0], device=self._device) - first[row_of]
        starts = self._index([piece.start for piece in pieces])
        positions = starts[row_of] + step_of
        slots = [piece.slot for piece in pieces]
        chunk = SharedChunk(
            tokens=self._index([*itertools.chain.from_iterable(p.tokens for p in pieces)]),
            angles=positions + self._index([p.length for p in prefixes])[row_of],
            slots=self._index(slots)[row_of],
            positions=positions,
            rows=rows,
            steps=steps,
            grid=(row_of, step_of) if min(sizes) != steps else None,
            fresh=not any(piece.start for piece in pieces),
            spans=_spans(prefixes, sizes),
        )
        if not chunk.fresh:
            self._look_back(chunk, slots, starts)
        return chunk

    def _look_back(self, chunk: SharedChunk, slots: list[int], starts: Tensor) -> None:
        # Fused kernels want the span in multiples of eight; the mask hides the surplus.
        chunk.span = round_up(int(starts.max()) + chunk.steps, 8)
        grid = starts[:, None] + torch.arange(chunk.steps, device=self._device)
        chunk.mask = attention.visibility(grid, chunk.span, self._shape.groups, self._dtype)
        if slots != list(range(len(slots))):
            chunk.cache_rows = self._index(slots)

    def _index(self, values: Sequence[int]) -> Tensor:
        return indices(values, self._device)

    def attend(self, index: int, q: Tensor, kv: Tensor, chunk: Chunk) -> Tensor:
        """Keep new keys and values, and attend over the prefix and what each row owns."""
        assert isinstance(chunk, SharedChunk)
        k, v = kv.chunk(2, dim=1)
        keys, values = self._cache[index]
        keys[chunk.slots, :, chunk.positions] = k
        values[chunk.slots, :, chunk.positions] = v
        out, lse = self._own(index, q, k, v, chunk)
        for prefix, span in chunk.spans:
            if prefix.length:
                keys, values = prefix.layers[index]
                seen = attention.attend_prefix(q[span], keys, values, self._scale)
                merged = attention.merge(seen, (out[span], lse[span]))
                if len(chunk.spans) == 1:
                    return merged
                out[span] = merged
        return out

    def _own(
        self, index: int, q: Tensor, k: Tensor, v: Tensor, chunk: SharedChunk
    ) -> tuple[Tensor, Tensor]:
        """Attend over what each row owns; flat in, flat out."""
        if chunk.fresh:
            grid = (_pad(q, chunk), _pad(k, chunk), _pad(v, chunk))
            out, lse = attention.attend_own(*grid, self._scale)
        else:
            assert chunk.mask is not None
            keys, values = _span(self._cache[index], chunk)
            padded = _pad(q, chunk)
            out, lse = attention.attend_cached(padded, keys, values, self._scale, chunk.mask)
        return _flatten(out, chunk), _flatten(lse, chunk)


def _spans(prefixes: Sequence[PrefixKV], sizes: Sequence[int]) -> list[tuple[PrefixKV, slice]]:
    """Return which tokens lie behind which prefix, for rows side by side."""
    found: list[tuple[PrefixKV, slice]] = []
    first = 0
    for prefix, size in zip(prefixes, sizes, strict=True):
        if found and found[-1][0] is prefix:
            found[-1] = (prefix, slice(found[-1][1].start, first + size))
        else:
            found.append((prefix, slice(first, first + size)))
        first += size
    return found


def _span(cache: tuple[Tensor, Tensor], chunk: SharedChunk) -> tuple[Tensor, Tensor]:
    keys, values = cache
    if chunk.cache_rows is None:
        return keys[: chunk.rows, :, : chunk.span], values[: chunk.rows, :, : chunk.span]
    rows = chunk.cache_rows
    return keys[rows, :, : chunk.span], values[rows, :, : chunk.span]


def _pad(flat: Tensor, chunk: SharedChunk) -> Tensor:
    if chunk.grid is None:
        return flat.reshape(chunk.rows, chunk.steps, *flat.shape[1:])
    padded = flat.new_zeros(chunk.rows, chunk.steps, *flat.shape[1:])
    padded[chunk.grid] = flat
    return padded


def _flatten(padded: Tensor, chunk: SharedChunk) -> Tensor:
    if chunk.grid is None:
        return padded.reshape(-1, *padded.shape[2:])
    return padded[chunk.grid]
