"""Kernels between a block's products: normalise, turn, keep, gate.

Written in Triton, which comes with torch on CUDA; import this module only there (see
`model.mixing`, which says in plain torch what they compute). One launch each instead of six
or more: for a small model on a large GPU a step is made of launches. Invariant: a program writes
only its own token's place in the cache.
"""

# Triton is no dependency, has no types, and its compiler wants upper-case constants.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def norm(x, weight, out, epsilon, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Scale one row to a mean square of one, and by the weights."""
    row = tl.program_id(0).to(tl.int64) * WIDTH
    d = tl.arange(0, BLOCK)
    live = d < WIDTH
    wide = tl.load(x + row + d, mask=live, other=0.0).to(tl.float32)
    by = tl.load(weight + d, mask=live, other=0.0).to(tl.float32)
    size = tl.rsqrt(tl.sum(wide * wide, 0) / WIDTH + epsilon)
    tl.store(out + row + d, (wide * size * by).to(out.dtype.element_ty), mask=live)


@triton.jit
def gate(both, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Return silu of the first half of one row times the second."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = d < WIDTH
    first = tl.load(both + row * 2 * WIDTH + d, mask=live, other=0.0).to(tl.float32)
    second = tl.load(both + row * 2 * WIDTH + WIDTH + d, mask=live, other=0.0).to(tl.float32)
    found = first / (1.0 + tl.exp(-first)) * second
    tl.store(out + row * WIDTH + d, found.to(out.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize_on_alignment=["angles", "flat"])
def place(
    fused, cos, sin, angles, flat, cache, queries, q_norm, k_norm, epsilon,
    HEADS: tl.constexpr, KV: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    NORMED: tl.constexpr,
):  # fmt: skip
    """Turn one token's queries and keys; keys and values go to their place in the cache."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, LANES)
    d = tl.arange(0, WIDTH)
    across = (d + WIDTH // 2) % WIDTH
    live = (head < HEADS + 2 * KV)[:, None]
    turns = (head < HEADS + KV)[:, None]
    asks = (head < HEADS)[:, None]
    angle = tl.load(angles + token).to(tl.int64) * WIDTH
    c = tl.load(cos + angle + d).to(tl.float32)[None, :]
    s = tl.load(sin + angle + d).to(tl.float32)[None, :]
    rows = fused + token * (HEADS + 2 * KV) * WIDTH + head[:, None] * WIDTH
    x = tl.load(rows + d[None, :], mask=live, other=0.0).to(tl.float32)
    y = tl.load(rows + across[None, :], mask=live, other=0.0).to(tl.float32)
    plain = x
    if NORMED:
        size = tl.rsqrt(tl.sum(x * x, 1) / WIDTH + epsilon)[:, None]
        own = tl.where(asks, tl.load(q_norm + d)[None, :], tl.load(k_norm + d)[None, :])
        far = tl.where(asks, tl.load(q_norm + across)[None, :], tl.load(k_norm + across)[None, :])
        kind = queries.dtype.element_ty
        x = (x * size * own.to(tl.float32)).to(kind).to(tl.float32)
        y = (y * size * far.to(tl.float32)).to(kind).to(tl.float32)
    found = tl.where(turns, x * c + y * s, plain)
    asked = queries + token * HEADS * WIDTH + head[:, None] * WIDTH + d[None, :]
    tl.store(asked, found.to(queries.dtype.element_ty), mask=asks & live)
    at = tl.load(flat + token).to(tl.int64) * (2 * KV * WIDTH)
    kept = cache + at + (head[:, None] - HEADS) * WIDTH + d[None, :]
    tl.store(kept, found.to(cache.dtype.element_ty), mask=live & (head >= HEADS)[:, None])
