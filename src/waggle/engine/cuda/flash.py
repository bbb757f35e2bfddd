"""Attention of ragged rows over contiguous caches: one kernel for every row of a batch.

Each row's cache holds a copy of its prefix and then its own keys, so rows of several prefixes,
prompts and single tokens share one launch. The kernel is the variable-length flash attention that
torch carries for CUDA; `reference` says what it must compute and is what tests run elsewhere.
Invariant: query i of a row with `used` keys and n queries sees the first `used - n + i + 1` keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from waggle.engine.cuda.choice import allowed, near

Varlen = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, tuple[int, int], float], Tensor]
"""(q [N,H,D], k and v [total,K,D], query starts, key starts, keys used, longest, scale) -> out."""


def kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    starts_q: Tensor,
    starts_k: Tensor,
    used: Tensor,
    longest: tuple[int, int],
    scale: float,
) -> Tensor:
    """Attend with torch's own flash kernel; 16-bit CUDA tensors only."""
    ops: Any = torch.ops.aten
    found: Tensor = ops._flash_attention_forward(
        q, k, v, starts_q, starts_k, *longest, 0.0, True, False, scale=scale, seqused_k=used
    )[0]
    return found


def reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    starts_q: Tensor,
    starts_k: Tensor,
    used: Tensor,
    longest: tuple[int, int],
    scale: float,
) -> Tensor:
    """Attend row by row, on any device."""
    out = torch.zeros_like(q)
    firsts, keys, lengths = starts_q.tolist(), starts_k.tolist(), used.tolist()
    for row, length in enumerate(lengths):
        count = min(firsts[row + 1] - firsts[row], longest[0])
        if count <= 0:
            continue
        chosen = slice(firsts[row], firsts[row] + count)
        span = slice(keys[row], keys[row] + length)
        groups = q.shape[1] // k.shape[1]
        seen, told = (part[span].repeat_interleave(groups, dim=1).float() for part in (k, v))
        weights = torch.einsum("qhd,khd->hqk", q[chosen].float(), seen) * scale
        ahead = torch.ones_like(weights[0], dtype=torch.bool).triu(length - count + 1)
        weights = weights.masked_fill(ahead, float("-inf")).softmax(-1)
        out[chosen] = torch.einsum("hqk,khd->qhd", weights, told).to(q.dtype)
    return out


def works(device: torch.device, dtype: torch.dtype, heads: int, kv: int, width: int) -> bool:
    """Whether the kernel is here and computes what it must, with gaps and out-of-order rows."""
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return False
    if not allowed("torch"):
        return False
    try:
        return agrees(device, dtype, heads, kv, width, kernel)
    except Exception:  # another torch, another card: the other store works everywhere
        return False


def agrees(
    device: torch.device, dtype: torch.dtype, heads: int, kv: int, width: int, attend: Varlen
) -> bool:
    """Whether a kernel gives what float32 gives, with gaps and out-of-order rows."""
    q = wave((49, heads, width), 0.731, device, dtype)
    cache = wave((3 * 200, 2 * kv, width), 0.317, device, dtype)
    places = (0, 1, 1, 9, 49), (400, 0, 200, 0, 0), (131, 0, 150, 40)
    rows = tuple(torch.tensor(part, dtype=torch.int32, device=device) for part in places)
    more = (*rows, (64, 200), width**-0.5)
    keys, values = cache.chunk(2, dim=1)
    with torch.inference_mode():
        exact = reference(q.float(), keys.float(), values.float(), *more)
        return near(attend(q, keys, values, *more), exact)


def wave(shape: tuple[int, ...], step: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return values to try kernels on: all different, between -1 and 1, the same every time."""
    values = torch.arange(math.prod(shape), device=device, dtype=torch.float32)
    return (values * step).sin().to(dtype).view(shape)
