"""What lies between a block's two products, as few launches can do it.

Queries and keys are normalised where the model does that, turned by their positions, and kept; then
rows attend. `plain` says in torch what is done to queries and keys; `cuda.fused` does all
of it with kernels of our own, where there are any.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.model.pointwise import rotate


class Spin(NamedTuple):
    """How a block treats its queries and keys before they meet."""

    cos: Tensor
    sin: Tensor
    """Tables by position, [L, 1, D]; the sign of the first half is in the sines."""
    q_norm: Tensor | None
    k_norm: Tensor | None
    epsilon: float
    heads: int
    kv: int


class Spans(NamedTuple):
    """Rows of new tokens, and where their keys are."""

    starts: Tensor
    """Where the tokens of each row start, and where those of the last one end."""
    bases: Tensor
    """Where its cache begins; one number more than there are rows, which is nobody's."""
    used: Tensor
    """Keys it has with its new tokens."""
    leads: Tensor
    """Where its prefix may be read, too: in one place for all rows that have it."""
    lengths: Tensor
    """Tokens of that."""


def plain(fused: Tensor, spin: Spin, angles: Tensor) -> tuple[Tensor, Tensor]:
    """Return turned queries, and turned keys with values, of [N, heads + 2 kv, D]."""
    heads, kv = spin.heads, spin.kv
    if spin.q_norm is not None and spin.k_norm is not None:
        q, k, v = torch.split(fused, [heads, kv, kv], dim=1)
        width = (q.shape[-1],)
        q = F.rms_norm(q, width, spin.q_norm, spin.epsilon)
        k = F.rms_norm(k, width, spin.k_norm, spin.epsilon)
        fused = torch.cat((q, k, v), dim=1)
    return rotate(fused, spin.cos[angles], spin.sin[angles], heads, kv)


class Mixer(Protocol):
    """What is done for rows of caches that lie one after the other."""

    def place(
        self, fused: Tensor, spin: Spin, angles: Tensor, flat: Tensor, cache: Tensor
    ) -> Tensor:
        """Turn and keep any number of tokens; return their queries."""
        ...

    def step(
        self, fused: Tensor, spin: Spin, angles: Tensor, rows: Spans, cache: Tensor, scale: float
    ) -> Tensor:
        """Turn, keep and attend for rows of one new token each."""
        ...

    def attend(self, q: Tensor, k: Tensor, v: Tensor, rows: Spans, scale: float) -> Tensor:
        """Attend with any number of tokens of each row: [N,H,D] over [total,K,D]."""
        ...
