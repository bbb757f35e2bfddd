"""The base of the KV caches: prefixes, chunks of new tokens, and how caches grow.

There are two stores. `SharedStore` keeps each prefix once for all rows and merges two partial
attentions: the prefix is read once per batch, which suits a CPU. `RowStore` copies the prefix into
every row's own cache, so that one kernel handles ragged rows of any prefixes: fewest launches,
which suits a GPU. Invariant: a row reads only keys and values written by itself or by its prefix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from waggle.engine.memory import spare
from waggle.engine.model.config import Shape
from waggle.engine.model.rope import Rotation

SLACK = 32
"""Cache positions kept free after an answer, for drafts."""
HOST_LIMIT = 1 << 30
"""Bytes of main memory for the keys and values of rows."""


@dataclass(slots=True)
class PrefixKV:
    """Keys and values of a shared prefix, per layer or stack of layers, in its store's layout."""

    layers: list[Tensor]
    length: int
    text: Tensor | None = None
    """Its tokens, if the store keeps them."""

    @property
    def size(self) -> int:
        """The size of its keys and values in bytes."""
        return sum(layer.numel() * layer.element_size() for layer in self.layers)


@dataclass(slots=True)
class Chunk:
    """A flat batch of new tokens with their positions, counted from the prefix's start."""

    tokens: Tensor
    positions: Tensor


class Piece(NamedTuple):
    """The new tokens of one row, its cache slot, and how many of its own tokens are cached."""

    slot: int
    tokens: Sequence[int]
    start: int


class Store(ABC):
    """Keys and values of rows, and attention over them."""

    def __init__(self, shape: Shape, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self.capacity = 0
        """The number of positions per row, as `reserve` counts them."""
        self.limit: int | None = None
        """Bytes for all rows; by default the spare memory of the device."""
        self.rows = self._most = rows
        """The number of rows that fit in memory at this capacity."""
        self._made = 0
        """The number of rows that have caches now."""
        self._planned = 0, 0
        self._shape = shape
        self._dtype = dtype
        self._device = device
        self._scale = shape.head_dim**-0.5

    @property
    def rotates(self) -> bool:
        """Whether `attend` takes the full rotary tables and looks up positions itself."""
        return False

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows fit in memory if one of them has this size."""
        capacity = self._needed(prefix, own)
        if capacity <= self.capacity:
            return self.rows
        each = position_bytes(self._shape, self._dtype)
        held = each * self._made * self.capacity
        limit = self.limit or memory_limit(self._device, held)
        self._planned = capacity, max(1, min(self._most, limit // (each * capacity)))
        return self._planned[1]

    def reserve(self, prefix: int, own: int) -> bool:
        """Make room for rows of `own` positions after a prefix; return whether caches moved."""
        capacity = self._needed(prefix, own)
        if capacity <= self.capacity:
            return False
        # Keep the number of rows that `room` returned, even if memory has shrunk since.
        rows = self._planned[1] if self._planned[0] == capacity else self.room(prefix, own)
        self._grow(rows, capacity)
        return True

    def shrink(self, positions: int) -> bool:
        """Free all memory if twice as many rows of `positions` then fit; return whether it did."""
        needed = round_up(positions + SLACK, 128)  # as made again: a second call frees nothing
        if self.rows == self._most or 2 * needed >= self.capacity:
            return False
        self.forget()
        return True

    def forget(self) -> None:
        """Free all memory; the contents of all rows are lost."""
        self.capacity, self.rows, self._made, self._planned = 0, self._most, 0, (0, 0)
        self._drop()

    @abstractmethod
    def widen(self, slots: int) -> None:
        """Make caches for the rows of the first `slots` slots."""

    @abstractmethod
    def _needed(self, prefix: int, own: int) -> int:
        """Return the capacity for rows of this size."""

    @abstractmethod
    def _grow(self, rows: int, capacity: int) -> None:
        """Move the caches and their contents into larger ones."""

    @abstractmethod
    def _drop(self) -> None:
        """Drop the caches."""

    @abstractmethod
    def single(self, length: int) -> Store:
        """Return a store of one row for running a prefix of this many tokens."""

    @abstractmethod
    def prefix(self, length: int) -> PrefixKV:
        """Return the contents of the first row as a prefix for other rows."""

    @abstractmethod
    def cut(self, prefix: PrefixKV, length: int) -> PrefixKV:
        """Return the beginning of a prefix as a separate prefix."""

    @abstractmethod
    def chunk(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> Chunk:
        """Lay out a batch; prefixes are per piece, and pieces of one prefix are best adjacent."""

    @abstractmethod
    def attend(self, index: int, qkv: Tensor, rotation: Rotation, chunk: Chunk) -> Tensor:
        """Rotate and store the new keys of a layer, and attend; [N,H+2K,D] in, [N,H,D] out."""


def memory_limit(device: torch.device, held: int) -> int:
    """Return how many bytes rows that hold `held` bytes may take: half of held plus spare memory.

    The other half is for passes of prompts and for prefixes, however often the caches have grown.
    """
    if device.type != "cuda":
        return HOST_LIMIT
    return (held + spare(device)) // 2


def position_bytes(shape: Shape, dtype: torch.dtype) -> int:
    """Return the bytes that the keys and values of one token take."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * dtype.itemsize


def round_up(value: int, step: int) -> int:
    """Return the smallest multiple of `step` that is not below `value`."""
    return -(-value // step) * step


def index_tensor(values: Sequence[int], device: torch.device) -> Tensor:
    """Return non-negative integers as an index tensor, without waiting for the device."""
    found = pinned_empty(len(values), device)
    # Much faster than building a tensor from the integers.
    found.numpy()[:] = np.frombuffer(array("I", values), dtype=np.uintc)
    return found.to(device, non_blocking=True)


def pinned_empty(count: int, device: torch.device) -> Tensor:
    """Return uninitialised integers on the host, in pinned memory if the device is a GPU.

    A GPU copies pinned memory asynchronously; for any other memory the host waits until all earlier
    work is done.
    """
    return torch.empty(count, dtype=torch.int64, pin_memory=device.type == "cuda")


def pinned(values: Tensor, device: torch.device) -> Tensor:
    """Return host values, in pinned memory if the device is a GPU."""
    return values.pin_memory() if device.type == "cuda" else values
