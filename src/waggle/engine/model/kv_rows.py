"""Caches in which every row holds its whole context: the store for GPUs.

A row's cache is its prefix, copied when the row enters a slot that does not hold it yet, followed
by its own keys. One ragged attention kernel handles any mixture of rows, so a step is a handful of
launches per layer. Steps are laid out in one integer array on the host, sent in one transfer, and
unpacked on the device, inside a captured graph if there is one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from waggle.engine.model.config import Shape
from waggle.engine.model.kv_cache import (
    SLACK,
    Chunk,
    Piece,
    PrefixKV,
    Store,
    index_tensor,
    pinned_empty,
    round_up,
)
from waggle.engine.model.rope import Rotation

STACK = 8
"""The number of layers whose caches form one tensor, so that one copy of a prefix fills them."""
Array = np.ndarray[Any, np.dtype[np.int64]]


class Spans(NamedTuple):
    """Rows of new tokens, and the places of their keys."""

    starts: Tensor
    """The index of each row's first token, and the end of the last row."""
    bases: Tensor
    """The start of each row's cache, with one extra number at the end that is never read."""
    used: Tensor
    """The number of keys of each row, new tokens included."""
    leads: Tensor
    """The place where a row's prefix may also be read: the same for all rows that have it."""
    lengths: Tensor
    """The number of tokens of that prefix."""


class RowKernels(Protocol):
    """Fused kernels for rows whose caches are contiguous."""

    def place(
        self, qkv: Tensor, rotation: Rotation, positions: Tensor, flat: Tensor, cache: Tensor
    ) -> Tensor:
        """Rotate any number of tokens, store their keys and values; return their queries."""
        ...

    def step(
        self,
        qkv: Tensor,
        rotation: Rotation,
        positions: Tensor,
        rows: Spans,
        cache: Tensor,
        scale: float,
    ) -> Tensor:
        """Rotate, store and attend for rows of one new token each."""
        ...

    def attend(self, q: Tensor, k: Tensor, v: Tensor, rows: Spans, scale: float) -> Tensor:
        """Attend with any number of tokens of each row: [N,H,D] over [total,K,D]."""
        ...


@dataclass(slots=True)
class RowChunk(Chunk):
    """The cache places of new tokens and the keys that each row sees."""

    flat: Tensor
    """The cache index of each token's keys, counted over all rows' caches."""
    rows: Spans
    single: bool
    """Whether every row has one token."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A step as integers: tokens, positions and places, then the fields of `Spans` per row."""

    values: Tensor
    """The integers, in pinned memory if the device is a GPU."""
    tokens: int
    rows: int
    single: bool
    """Whether every row has one token."""


class RowStore(Store):
    """One contiguous cache per row, prefix included."""

    def __init__(
        self,
        shape: Shape,
        rows: int,
        dtype: torch.dtype,
        device: torch.device,
        kernels: RowKernels,
    ) -> None:
        super().__init__(shape, rows, dtype, device)
        self.kernels = kernels
        self._stacks: list[Tensor] = []
        self._cache: list[Tensor] = []
        """The layers of the stacks as a flat list."""
        self.texts = torch.empty((0, 0), dtype=torch.int32, device=device)
        """The tokens whose keys each row holds, [rows + 1, capacity]."""
        self._held: list[PrefixKV | None] = [None] * rows
        self._shared: Array = np.zeros((2, rows), dtype=np.int64)
        """The place where the prefix of each slot is read, and its size (see `shared`)."""

    @property
    def rotates(self) -> bool:
        """True: the kernels look up positions."""
        return True

    def _needed(self, prefix: int, own: int) -> int:
        """Return a row's capacity; it grows by a quarter, since growth drops captured steps."""
        needed = prefix + own + SLACK
        if needed <= self.capacity:
            return self.capacity
        return round_up(max(needed, self.capacity * 5 // 4), 128)

    def _grow(self, rows: int, capacity: int) -> None:
        """Move the caches into larger ones; one more row is scratch for padding."""
        old, self._stacks, self._cache = self._stacks, [], []
        kept, known = min(rows, self.rows), self.capacity
        self.rows, self.capacity, self._made = rows, capacity, rows + 1
        self._held = [*self._held[:kept], *[None] * (rows - kept)]
        tail = (2 * self._shape.kv_heads, self._shape.head_dim)
        for first in range(0, self._shape.layers, STACK):
            height = min(STACK, self._shape.layers - first)
            size = (height, rows + 1, capacity, *tail)
            fresh = torch.zeros(size, dtype=self._dtype, device=self._device)
            if old:  # stack by stack: with several, old and new are never both fully in memory
                fresh[:, :kept, :known] = old.pop(0)[:, :kept]
            self._stacks.append(fresh)
            self._cache += fresh.flatten(1, 2)
        texts, self.texts = self.texts[:kept], self.texts.new_zeros((rows + 1, capacity))
        self.texts[: len(texts), :known] = texts
        self._find_shared()

    def widen(self, slots: int) -> None:
        """Do nothing: all rows are made at once, since captured steps read them by address."""

    def _drop(self) -> None:
        self._stacks, self._cache, self._held = [], [], [None] * self._most
        self.texts = self.texts.new_empty((0, 0))
        self._find_shared()

    def single(self, length: int) -> RowStore:
        """Return a store of one row."""
        store = RowStore(self._shape, 1, self._dtype, self._device, self.kernels)
        store.reserve(0, length)
        return store

    def prefix(self, length: int) -> PrefixKV:
        """Return the first row as [layers, P, 2 K, D] per stack."""
        kept = [stack[:, 0, :length].clone() for stack in self._stacks]
        return PrefixKV(kept, length, self.texts[0, :length].clone())

    def cut(self, prefix: PrefixKV, length: int) -> PrefixKV:
        """Return the beginning of a prefix as a separate prefix."""
        assert prefix.text is not None
        kept = [stack[:, :length].clone() for stack in prefix.layers]
        return PrefixKV(kept, length, prefix.text[:length])

    def chunk(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> RowChunk:
        """Lay out a batch and send it to the device."""
        plan = self.layout(pieces, prefixes)
        sent = plan.values.to(self._device, non_blocking=True)
        return self.unpack(sent, plan.tokens, plan.rows, plan.single)

    def layout(
        self,
        pieces: Sequence[Piece],
        prefixes: Sequence[PrefixKV],
        tokens: int = 0,
        rows: int = 0,
        single: bool = False,
    ) -> Layout:
        """Lay out a batch as integers; given sizes, pad to them with scratch tokens.

        The scratch tokens form one extra row or, if every row has a `single` token, one row each.
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
        sent = pinned_empty(3 * padded + 5 * height + 2, self._device)
        values = sent.numpy()
        fields = values[: 3 * padded].reshape(3, padded)
        fields[0, :total] = np.frombuffer(
            b"".join(array("I", text) for text in texts), dtype=np.uintc
        )
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
        return Layout(sent, padded, height, single)

    def unpack(self, sent: Tensor, tokens: int, rows: int, single: bool) -> RowChunk:
        """Return the chunk described by a layout of these sizes, and store its tokens."""
        sizes = [tokens, tokens, tokens, rows + 1, rows + 1, rows, rows, rows]
        ids, positions, flat, *more = torch.split(sent, sizes)
        self.keep_tokens(flat, ids)
        spans = Spans(*(part.int() for part in more))
        return RowChunk(ids, positions, flat, spans, single)

    def keep_tokens(self, flat: Tensor, tokens: Tensor) -> None:
        """Store tokens at the indices of their keys, counted over all rows' caches."""
        self.texts.view(-1).index_copy_(0, flat, tokens.int())

    def tensors(self) -> list[Tensor]:
        """Return the caches; a captured step keeps them alive."""
        return [*self._cache, self.texts]

    def _enter(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> None:
        """Copy prefixes into the slots of starting rows that do not hold theirs yet."""
        missing: dict[int, tuple[PrefixKV, list[int]]] = {}
        for piece, prefix in zip(pieces, prefixes, strict=True):
            if piece.start == 0 and self._held[piece.slot] is not prefix:
                missing.setdefault(id(prefix), (prefix, []))[1].append(piece.slot)
        for prefix, slots in missing.values():
            for slot in slots:
                self._held[slot] = None  # until the copy is complete, since it may fail
            if prefix.length:
                self._copy(prefix, slots)
            for slot in slots:
                self._held[slot] = prefix
        if missing:
            self._find_shared()

    def _copy(self, prefix: PrefixKV, slots: list[int]) -> None:
        where = index_tensor(slots, self._device)
        for stack, kept in zip(self._stacks, prefix.layers, strict=True):
            rows = kept.unsqueeze(1).expand(-1, len(slots), -1, -1, -1)
            stack[:, :, : prefix.length].index_copy_(1, where, rows)
        assert prefix.text is not None
        self.texts[:, : prefix.length].index_copy_(0, where, prefix.text.expand(len(slots), -1))

    def shared(self, slots: Sequence[int] | Array) -> Array:
        """Return the place of each row's prefix in the first slot that holds it, and its size.

        Rows that read the same copy of their prefix hit the device's cache.
        """
        found: Array = self._shared[:, slots]
        return found

    def _find_shared(self) -> None:
        firsts: dict[int, int] = {}
        slots = [firsts.setdefault(id(kept), slot) for slot, kept in enumerate(self._held)]
        lengths = [0 if kept is None else kept.length for kept in self._held]
        self._shared = np.array((slots, lengths), dtype=np.int64)
        self._shared[0] *= self.capacity

    def attend(self, index: int, qkv: Tensor, rotation: Rotation, chunk: Chunk) -> Tensor:
        """Store new keys and values, and attend over everything each row holds."""
        assert isinstance(chunk, RowChunk)
        kernels, cache, rows = self.kernels, self._cache[index], chunk.rows
        if chunk.single:
            return kernels.step(qkv, rotation, chunk.positions, rows, cache, self._scale)
        q = kernels.place(qkv, rotation, chunk.positions, chunk.flat, cache)
        keys, values = cache.chunk(2, dim=1)
        return kernels.attend(q, keys, values, rows, self._scale)
