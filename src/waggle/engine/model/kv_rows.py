"""Caches in which every row holds its whole context: the store for GPUs.

A row's cache is its prefix, copied when the row enters a slot that does not hold it yet, and then
its own keys. One ragged attention kernel serves any mixture of rows, so a step is a handful of
launches per layer. Steps are laid out in one integer array on the host, sent in one transfer, and
unpacked on the device, inside a captured graph if there is one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from waggle.engine.cuda import flash
from waggle.engine.model.config import Shape
from waggle.engine.model.kv_cache import (
    SLACK,
    Chunk,
    Piece,
    PrefixKV,
    blank,
    indices,
    memory_limit,
    position_bytes,
    round_up,
)
from waggle.engine.model.mixing import Mixer, Spans, Spin

STACK = 8
"""Layers whose caches are one tensor: a prefix is copied into all of them at once."""
Array = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class RowChunk(Chunk):
    """Where tokens go and which keys each row sees."""

    flat: Tensor
    """Where each token's keys go, counted over all rows' caches."""
    rows: Spans
    longest: tuple[int, int]
    """Most new tokens of a row, and most keys."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A step as integers: tokens, angles, places, then per row where it starts and ends."""

    values: Tensor
    """Where a device can fetch them by itself."""
    tokens: int
    rows: int
    longest: int


class RowStore:
    """One contiguous cache per row, prefix included."""

    def __init__(
        self,
        shape: Shape,
        rows: int,
        dtype: torch.dtype,
        device: torch.device,
        attend: flash.Varlen = flash.kernel,
    ) -> None:
        self.capacity = 0
        self.limit: int | None = None
        """Bytes for all rows; by default what the device can spare."""
        self._planned = 0, 0
        self._shape = shape
        self.rows = self._most = rows
        self._dtype = dtype
        self._device = device
        self._kernel = attend
        self.mixer: Mixer | None = None
        """Fused kernels, where there are any."""
        self._scale = shape.head_dim**-0.5
        self._stacks: list[Tensor] = []
        self._cache: list[Tensor] = []
        """The layers of the stacks, one by one."""
        self.texts = torch.empty((0, 0), dtype=torch.int32, device=device)
        """The tokens whose keys each row holds, [rows + 1, capacity]."""
        self._held: list[PrefixKV | None] = [None] * rows
        self._shared: Array = np.zeros((2, rows), dtype=np.int64)
        """Where the prefix of each slot is read, and its size (see `shared`)."""

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows the memory holds when one of this size is among them."""
        capacity = self._needed(prefix, own)
        if capacity <= self.capacity:
            return self.rows
        each = position_bytes(self._shape, self._dtype)
        limit = self.limit or memory_limit(self._device, each * (self.rows + 1) * self.capacity)
        self._planned = capacity, max(1, min(self._most, limit // (each * capacity)))
        return self._planned[1]

    def _needed(self, prefix: int, own: int) -> int:
        """Return the capacity to have for a row; growing voids recorded steps: grow rarely."""
        needed = prefix + own + SLACK
        if needed <= self.capacity:
            return self.capacity
        return round_up(max(needed, self.capacity * 5 // 4), 128)

    def reserve(self, prefix: int, own: int) -> bool:
        """Make room for rows of a prefix and this many own positions; one more row is scratch."""
        capacity = self._needed(prefix, own)
        if capacity == self.capacity:
            return False
        # What was said to fit is what there will be, though memory may have gone since.
        rows = self._planned[1] if self._planned[0] == capacity else self.room(prefix, own)
        stale, self._stacks, self._cache = self._stacks, [], []
        kept, known = min(rows, self.rows), self.capacity
        self.rows, self.capacity = rows, capacity
        self._held = [*self._held[:kept], *[None] * (rows - kept)]
        tail = (2 * self._shape.kv_heads, self._shape.head_dim)
        for first in range(0, self._shape.layers, STACK):
            height = min(STACK, self._shape.layers - first)
            size = (height, rows + 1, capacity, *tail)
            fresh = torch.zeros(size, dtype=self._dtype, device=self._device)
            if stale:  # stack by stack: where there are several, both never lie in memory whole
                old = stale.pop(0)[:, :kept]
                fresh[:, :kept, :known] = old
                del old
            self._stacks.append(fresh)
            self._cache += fresh.flatten(1, 2)
        read, self.texts = self.texts[:kept], self.texts.new_zeros((rows + 1, capacity))
        self.texts[: len(read), :known] = read
        self._find_shared()
        return True

    def forget(self) -> None:
        """Give all memory back; what rows held is lost."""
        self.capacity, self.rows, self._planned = 0, self._most, (0, 0)
        self._stacks, self._cache, self._held = [], [], [None] * self._most
        self.texts = self.texts.new_empty((0, 0))
        self._find_shared()

    def single(self, length: int) -> RowStore:
        """Return a store of one row."""
        store = RowStore(self._shape, 1, self._dtype, self._device, self._kernel)
        store.mixer = self.mixer
        store.reserve(0, length)
        return store

    def prefix(self, length: int) -> PrefixKV:
        """Return the first row as [layers, P, 2 K, D] per stack."""
        kept = [stack[:, 0, :length].clone() for stack in self._stacks]
        return PrefixKV(kept, length, self.texts[0, :length].clone())

    def cut(self, prefix: PrefixKV, length: int) -> PrefixKV:
        """Return the beginning of a prefix, as one of its own."""
        assert prefix.text is not None
        kept = [stack[:, :length].clone() for stack in prefix.layers]
        return PrefixKV(kept, length, prefix.text[:length])

    def chunk(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> RowChunk:
        """Lay out a batch and send it to the device."""
        plan = self.layout(pieces, prefixes)
        given = plan.values.to(self._device, non_blocking=True)
        return self.unpack(given, plan.tokens, plan.rows, plan.longest)

    def layout(
        self,
        pieces: Sequence[Piece],
        prefixes: Sequence[PrefixKV],
        tokens: int = 0,
        rows: int = 0,
        single: bool = False,
    ) -> Layout:
        """Lay out a batch as integers; given sizes, pad to them with scratch tokens.

        Scratch tokens are one more row, or, where every row has a `single` token, one row each.
        """
        self._enter(pieces, prefixes)
        slots, texts, starts = zip(*pieces, strict=True) if pieces else ((), (), ())
        sizes = np.array([*map(len, texts)], dtype=np.int64)
        total, count = int(sizes.sum()), len(pieces)
        padded, height = max(tokens, total), rows if single else max(rows, count) + 1
        scratch = self.rows * self.capacity
        places = np.array(slots, dtype=np.int64)
        prefix = self.shared(places)
        bases, firsts = places * self.capacity, np.array(starts, dtype=np.int64) + prefix[1]
        ends = sizes.cumsum()
        given = blank(3 * padded + 5 * height + 2, self._device)
        values = given.numpy()
        fields = values[: 3 * padded].reshape(3, padded)
        fields[0, :total] = np.frombuffer(b"".join(map(_words, texts)), dtype=np.uintc)
        fields[1, :total] = np.arange(total) + np.repeat(firsts - (ends - sizes), sizes)
        fields[2, :total] = fields[1, :total] + np.repeat(bases, sizes)
        fields[:2, total:] = 0
        fields[2, total:] = scratch
        queries, keys = values[3 * padded : -3 * height].reshape(2, height + 1)
        used, *shared = values[-3 * height :].reshape(3, height)
        queries[0] = 0
        queries[1 : count + 1] = ends
        queries[count + 1 :] = np.arange(total + 1, padded + 1) if single else total
        queries[height] = padded
        keys[:count] = bases
        keys[count:] = scratch
        used[:count] = firsts + sizes
        used[count:] = 1
        for field, known in zip(shared, prefix, strict=True):
            field[:count] = known
            field[count:] = 0
        return Layout(given, padded, height, 1 if single else max(2, int(sizes.max(initial=0))))

    def unpack(self, sent: Tensor, tokens: int, rows: int, longest: int) -> RowChunk:
        """Return the chunk that a layout of so many tokens and rows describes, and note it."""
        sizes = [tokens, tokens, tokens, rows + 1, rows + 1, rows, rows, rows]
        ids, angles, flat, *more = torch.split(sent, sizes)
        self.note(flat, ids)
        spans = Spans(*(part.int() for part in more))
        return RowChunk(ids, angles, flat, spans, (longest, self.capacity))

    def note(self, flat: Tensor, tokens: Tensor) -> None:
        """Keep tokens where their keys go, counted over all rows' caches."""
        self.texts.view(-1).index_copy_(0, flat, tokens.int())

    def tensors(self) -> list[Tensor]:
        """Return the caches; who captures a step keeps them alive."""
        return [*self._cache, self.texts]

    def _enter(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> None:
        """Copy prefixes into the slots of rows that begin and do not hold theirs yet."""
        missing: dict[int, tuple[PrefixKV, list[int]]] = {}
        for piece, prefix in zip(pieces, prefixes, strict=True):
            if piece.start == 0 and self._held[piece.slot] is not prefix:
                missing.setdefault(id(prefix), (prefix, []))[1].append(piece.slot)
        for prefix, slots in missing.values():
            for slot in slots:
                self._held[slot] = None  # until all of it is there: copying may fail
            if prefix.length:
                self._copy(prefix, slots)
            for slot in slots:
                self._held[slot] = prefix
        if missing:
            self._find_shared()

    def _copy(self, prefix: PrefixKV, slots: list[int]) -> None:
        where = indices(slots, self._device)
        for stack, kept in zip(self._stacks, prefix.layers, strict=True):
            rows = kept.unsqueeze(1).expand(-1, len(slots), -1, -1, -1)
            stack[:, :, : prefix.length].index_copy_(1, where, rows)
        assert prefix.text is not None
        self.texts[:, : prefix.length].index_copy_(0, where, prefix.text.expand(len(slots), -1))

    def shared(self, slots: Sequence[int] | Array) -> Array:
        """Return where rows find their prefix in the first slot that holds it, and its size.

        Rows that read one copy of their prefix find it in the cache of the device.
        """
        found: Array = self._shared[:, slots]
        return found

    def _find_shared(self) -> None:
        firsts: dict[int, int] = {}
        slots = [firsts.setdefault(id(kept), slot) for slot, kept in enumerate(self._held)]
        lengths = [0 if kept is None else kept.length for kept in self._held]
        self._shared = np.array((slots, lengths), dtype=np.int64)
        self._shared[0] *= self.capacity

    def mix(self, index: int, fused: Tensor, spin: Spin, chunk: Chunk) -> Tensor:
        """Turn queries and keys, keep and attend, with fused kernels."""
        assert isinstance(chunk, RowChunk) and self.mixer is not None
        cache = self._cache[index]
        if chunk.longest[0] == 1:
            return self.mixer.step(fused, spin, chunk.angles, chunk.rows, cache, self._scale)
        q = self.mixer.place(fused, spin, chunk.angles, chunk.flat, cache)
        keys, values = cache.chunk(2, dim=1)
        return self.mixer.attend(q, keys, values, chunk.rows, self._scale)

    def attend(self, index: int, q: Tensor, kv: Tensor, chunk: Chunk) -> Tensor:
        """Keep new keys and values, and attend over everything each row holds."""
        assert isinstance(chunk, RowChunk)
        cache = self._cache[index]
        cache.index_copy_(0, chunk.flat, kv)
        keys, values = cache.chunk(2, dim=1)
        rows = (chunk.rows.starts, chunk.rows.bases, chunk.rows.used)
        return self._kernel(q, keys, values, *rows, chunk.longest, self._scale)


def _words(tokens: Sequence[int]) -> memoryview[int] | array[int]:
    """Return tokens as they lie side by side, as some do already."""
    return tokens if isinstance(tokens, memoryview) else array("I", tokens)
