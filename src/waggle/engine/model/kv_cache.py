"""What the KV caches have in common: prefixes, chunks of new tokens, and how caches grow.

There are two stores. `SharedStore` keeps each prefix once for all rows and merges two partial
attentions: the prefix is read once per batch, which suits a CPU. `RowStore` copies the prefix into
every row's own cache, so that one kernel serves ragged rows of any prefixes: fewest launches, which
suits a GPU. Invariant: what a row reads was written by itself or by its prefix.
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
    """Keys and values of a shared prefix, by layers or stacks of them, as its store lays out."""

    layers: list[Tensor]
    length: int
    text: Tensor | None = None
    """Its tokens, where a store keeps them, too."""

    @property
    def size(self) -> int:
        """Bytes it takes."""
        return sum(layer.numel() * layer.element_size() for layer in self.layers)


@dataclass(slots=True)
class Chunk:
    """A batch of new tokens, flat, with their positions, prefix included."""

    tokens: Tensor
    positions: Tensor


class Piece(NamedTuple):
    """The new tokens of one row, its cache slot, and how many of its own tokens are cached."""

    slot: int
    tokens: Sequence[int]
    start: int


class Store(ABC):
    """Keys and values of rows, and attention over them."""

    _scratch = 0
    """Rows beside those that requests have."""

    def __init__(self, shape: Shape, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self.capacity = 0
        """Positions a row has, as `reserve` counts them."""
        self.limit: int | None = None
        """Bytes for all rows; by default what the device can spare."""
        self.rows = self._most = rows
        self._planned = 0, 0
        self._shape = shape
        self._dtype = dtype
        self._device = device
        self._scale = shape.head_dim**-0.5

    @property
    def rotates(self) -> bool:
        """Whether `attend` takes whole rotary tables and looks positions up itself."""
        return False

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows the memory holds when one of this size is among them."""
        capacity = self._needed(prefix, own)
        if capacity <= self.capacity:
            return self.rows
        each = position_bytes(self._shape, self._dtype)
        held = each * (self.rows + self._scratch) * self.capacity
        limit = self.limit or memory_limit(self._device, held)
        self._planned = capacity, max(1, min(self._most, limit // (each * capacity)))
        return self._planned[1]

    def reserve(self, prefix: int, own: int) -> bool:
        """Make room for rows of this many own positions after a prefix; whether caches moved."""
        capacity = self._needed(prefix, own)
        if capacity <= self.capacity:
            return False
        # The number of rows that `room` promised holds, though memory may have gone since.
        rows = self._planned[1] if self._planned[0] == capacity else self.room(prefix, own)
        self._grow(rows, capacity)
        return True

    def forget(self) -> None:
        """Give all memory back; what rows held is lost."""
        self.capacity, self.rows, self._planned = 0, self._most, (0, 0)
        self._drop()

    @abstractmethod
    def _needed(self, prefix: int, own: int) -> int:
        """Return the capacity for rows of this size."""

    @abstractmethod
    def _grow(self, rows: int, capacity: int) -> None:
        """Move the caches into larger ones, with what rows hold."""

    @abstractmethod
    def _drop(self) -> None:
        """Drop the caches."""

    @abstractmethod
    def single(self, length: int) -> Store:
        """Return a store of one row for running a prefix of this many tokens."""

    @abstractmethod
    def prefix(self, length: int) -> PrefixKV:
        """Return what the first row holds, as a prefix for other rows."""

    @abstractmethod
    def cut(self, prefix: PrefixKV, length: int) -> PrefixKV:
        """Return the beginning of a prefix, as one of its own."""

    @abstractmethod
    def chunk(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> Chunk:
        """Lay out a batch; prefixes are per piece, those of one prefix best side by side."""

    @abstractmethod
    def attend(self, index: int, qkv: Tensor, rotation: Rotation, chunk: Chunk) -> Tensor:
        """Rotate and keep the new keys of a layer, and attend; [N,H+2K,D] in, [N,H,D] out."""


def memory_limit(device: torch.device, held: int) -> int:
    """Return how many bytes rows may take that hold some: half of what they could have.

    The other half is for passes of prompts and for prefixes, however often the caches have grown.
    """
    if device.type != "cuda":
        return HOST_LIMIT
    return (held + spare(device)) // 2


def position_bytes(shape: Shape, dtype: torch.dtype) -> int:
    """Return what the keys and values of one token take."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * dtype.itemsize


def round_up(value: int, step: int) -> int:
    """Return the least multiple of a step that is not below a value."""
    return -(-value // step) * step


def index_tensor(values: Sequence[int], device: torch.device) -> Tensor:
    """Return integers from 0 up as an index tensor, without waiting for the device."""
    found = pinned_empty(len(values), device)
    # Far sooner than a tensor of them.
    found.numpy()[:] = np.frombuffer(array("I", values), dtype=np.uintc)
    return found.to(device, non_blocking=True)


def pinned_empty(count: int, device: torch.device) -> Tensor:
    """Return uninitialised integers on the host, in pinned memory where the device is a GPU.

    A GPU fetches pinned memory by itself; from any other memory the host waits until all earlier
    work is done.
    """
    return torch.empty(count, dtype=torch.int64, pin_memory=device.type == "cuda")


def pinned(values: Tensor, device: torch.device) -> Tensor:
    """Return values of the host in pinned memory where the device is a GPU."""
    return values.pin_memory() if device.type == "cuda" else values
