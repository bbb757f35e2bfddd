"""Where keys and values live, and how queries meet them.

Two stores. `SharedStore` keeps each prefix once for all rows and merges two partial attentions: the
prefix is read once per batch, which suits a CPU. `RowStore` copies the prefix into every row's own
cache, so that one kernel serves ragged rows of any prefixes: fewest launches, which suits a GPU.
Invariant: what a row reads was written by itself or by its prefix.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from waggle.engine.memory import spare
from waggle.engine.model.config import Shape

SLACK = 32
"""Cache positions kept free after an answer, for drafts."""
HOST_LIMIT = 1 << 30
"""Bytes of main memory for the keys and values of rows."""


def memory_limit(device: torch.device, held: int) -> int:
    """Return how many bytes rows may take that have taken some: half of what they could have.

    The other half is for passes of prompts and for prefixes, however often the caches have grown.
    """
    if device.type != "cuda":
        return HOST_LIMIT
    return (held + spare(device)) // 2


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
    """A batch of new tokens, flat; `angles` are their positions, prefix included."""

    tokens: Tensor
    angles: Tensor


class Piece(NamedTuple):
    """The new tokens of one row, its cache slot, and how many of its own tokens are cached."""

    slot: int
    tokens: Sequence[int]
    start: int


class Store(Protocol):
    """Keys and values of rows, and attention over them."""

    capacity: int
    """Positions a row has, as `reserve` counts them."""

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows its memory holds when one of this size is among them."""
        ...

    def reserve(self, prefix: int, own: int) -> bool:
        """Make room for rows of this size; whether the caches moved."""
        ...

    def forget(self) -> None:
        """Give all memory back; what rows held is lost."""
        ...

    def single(self, length: int) -> Store:
        """Return a store of one row for running a prefix of this many tokens."""
        ...

    def prefix(self, length: int) -> PrefixKV:
        """Return what the first row holds, as a prefix for other rows."""
        ...

    def cut(self, prefix: PrefixKV, length: int) -> PrefixKV:
        """Return the beginning of a prefix, as one of its own."""
        ...

    def chunk(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> Chunk:
        """Lay out a batch; prefixes are per piece, those of one prefix best side by side."""
        ...

    def attend(self, index: int, q: Tensor, kv: Tensor, chunk: Chunk) -> Tensor:
        """Keep the new keys and values of a layer, and attend; [N,H,D] in and out."""
        ...


def position_bytes(shape: Shape, dtype: torch.dtype) -> int:
    """Return what the keys and values of one token take."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * dtype.itemsize


def round_up(value: int, step: int) -> int:
    """Return the least multiple of a step that is not below a value."""
    return -(-value // step) * step


def indices(values: Sequence[int], device: torch.device) -> Tensor:
    """Return integers from 0 up as an index tensor, without waiting for the device."""
    found = blank(len(values), device)
    # Far sooner than a tensor of them.
    found.numpy()[:] = np.frombuffer(array("I", values), dtype=np.uintc)
    return found.to(device, non_blocking=True)


def blank(count: int, device: torch.device) -> Tensor:
    """Return room for integers where a device can fetch them by itself, with anything in it.

    What is written there need not be copied once more, as `lying` does.
    """
    return torch.empty(count, dtype=torch.int64, pin_memory=device.type == "cuda")


def lying(values: Tensor, device: torch.device) -> Tensor:
    """Return values where a device can fetch them by itself.

    From any other memory a GPU is waited for until all it was given before is done.
    """
    return values.pin_memory() if device.type == "cuda" else values
