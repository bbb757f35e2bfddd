"""Short sequences end to end: a pass of a small backbone over a token corpus.

    [ sequence 1 | sequence 2 | ... | filler ]

Every sequence carries its whole prompt; with a tokenizer that spells the shared part in a few
dozen tokens nothing is gained by sharing it. On CUDA attention runs on the sequences as they lie
(variable-length flash attention), elsewhere on a padded grid. Invariant: every sequence gets the
states it would get alone.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass
class Flat:
    """One pass over some sequences."""

    tokens: Tensor
    """(1, tokens)."""
    positions: Tensor
    bounds: Tensor
    """Where sequences start, and the end: (sequences + 1), int32."""
    longest: int
    where: Tensor
    """Places whose next token is predicted."""
    targets: Tensor
    weights: Tensor
    """Weight of each predicted token: a record's tokens add up to 1, or count 1 each."""
    records: int

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Attend within each sequence; (1, heads, tokens, width) states to (tokens, heads, width).

        Grouped queries are spelled out: heads are few where sequences are short.
        """
        groups = query.shape[1] // key.shape[1]
        if groups > 1:
            key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
        if q.is_cuda and v.dtype in (torch.bfloat16, torch.float16) and _varlen_works(v.dtype):
            q, k = q.to(v.dtype), k.to(v.dtype)
            return _varlen(q, k, v, self.bounds, self.longest, scaling)
        return self._on_grid(q, k, v, scaling)

    def _on_grid(self, q: Tensor, k: Tensor, v: Tensor, scaling: float | None) -> Tensor:
        rows = len(self.bounds) - 1
        number = torch.bucketize(
            torch.arange(q.shape[0], device=q.device), self.bounds[1:].long(), right=True
        )
        place = number * self.longest + self.positions[0]

        def grid(states: Tensor) -> Tensor:
            empty = states.new_zeros(rows * self.longest, *states.shape[1:])
            spread = empty.index_copy(0, place, states)
            return spread.view(rows, self.longest, *states.shape[1:]).transpose(1, 2)

        found = F.scaled_dot_product_attention(
            grid(q), grid(k), grid(v), is_causal=True, scale=scaling
        )
        flat = found.transpose(1, 2).reshape(rows * self.longest, *q.shape[1:])
        return flat.index_select(0, place)


@lru_cache(maxsize=2)
def _varlen_works(dtype: torch.dtype) -> bool:
    """Try variable-length attention once, both ways; it is young, and not in every build."""
    try:
        with torch.enable_grad():
            states = torch.randn(8, 1, 64, dtype=dtype, device="cuda", requires_grad=True)
            bounds = torch.tensor([0, 3, 8], dtype=torch.int32, device="cuda")
            found = _varlen(states, states, states, bounds, 5, None)
            torch.autograd.backward(found.sum())
    except (ImportError, AttributeError, RuntimeError, TypeError, NotImplementedError, ValueError):
        return False
    return True


def _varlen(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, longest: int, scaling: float | None
) -> Tensor:
    """Causal flash attention over sequences of any length, under either signature of torch's."""
    from torch.nn.attention import varlen

    function: Any = varlen.varlen_attn
    known = inspect.signature(function).parameters
    options: dict[str, Any] = {}
    if "window_size" in known:
        options["window_size"] = (-1, 0)
    else:
        options["is_causal"] = True
    if scaling is not None and "scale" in known:
        options["scale"] = scaling
    elif scaling is not None and abs(scaling - q.shape[-1] ** -0.5) > 1e-6:
        q = q * (scaling * q.shape[-1] ** 0.5)
    found: Tensor = function(
        q.contiguous(), k.contiguous(), v.contiguous(), bounds, bounds, longest, longest, **options
    )
    return found
