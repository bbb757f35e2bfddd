"""Kernels between a block's products: normalise, turn, keep, attend to one row, gate.

Written in Triton, which comes with torch on CUDA; import this module only there (see
`waggle.engine.mixing`, which says in plain torch what they compute). One launch each instead of six
or more: for a small model on a large GPU a step is made of launches. Invariant: a program writes
only its own token's place in the cache, and reads no other place that is written in its launch.
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


@triton.jit(do_not_specialize_on_alignment=["angles", "bases", "leads", "lengths"])
def step(
    fused, cos, sin, angles, bases, leads, lengths, cache, out, q_norm, k_norm, epsilon, scale,
    HEADS: tl.constexpr, KV: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    BLOCK: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """Turn, keep and attend for one key head of a row that has one new token.

    The first `lengths` keys are read where `leads` begins: rows of one prefix read one copy of it.
    """
    row = tl.program_id(0).to(tl.int64)
    kv = tl.program_id(1)
    GROUPS: tl.constexpr = HEADS // KV
    STRIDE: tl.constexpr = 2 * KV * WIDTH
    lane = tl.arange(0, LANES)
    d = tl.arange(0, WIDTH)
    across = (d + WIDTH // 2) % WIDTH
    asks = (lane < GROUPS)[:, None]
    spot = tl.load(angles + row).to(tl.int32)
    base = tl.load(bases + row).to(tl.int64)
    lead = tl.load(leads + row).to(tl.int64)
    length = tl.load(lengths + row).to(tl.int32)
    c = tl.load(cos + spot.to(tl.int64) * WIDTH + d).to(tl.float32)
    s = tl.load(sin + spot.to(tl.int64) * WIDTH + d).to(tl.float32)
    own = fused + row * (HEADS + 2 * KV) * WIDTH
    rows = own + (kv * GROUPS + lane[:, None]) * WIDTH
    qx = tl.load(rows + d[None, :], mask=asks, other=0.0).to(tl.float32)
    qy = tl.load(rows + across[None, :], mask=asks, other=0.0).to(tl.float32)
    kx = tl.load(own + (HEADS + kv) * WIDTH + d).to(tl.float32)
    ky = tl.load(own + (HEADS + kv) * WIDTH + across).to(tl.float32)
    v = tl.load(own + (HEADS + KV + kv) * WIDTH + d)
    kind = cache.dtype.element_ty
    if NORMED:
        q_size = tl.rsqrt(tl.sum(qx * qx, 1) / WIDTH + epsilon)[:, None]
        k_size = tl.rsqrt(tl.sum(kx * kx, 0) / WIDTH + epsilon)
        near, far = tl.load(q_norm + d).to(tl.float32), tl.load(q_norm + across).to(tl.float32)
        qx = (qx * q_size * near[None, :]).to(kind).to(tl.float32)
        qy = (qy * q_size * far[None, :]).to(kind).to(tl.float32)
        near, far = tl.load(k_norm + d).to(tl.float32), tl.load(k_norm + across).to(tl.float32)
        kx = (kx * k_size * near).to(kind).to(tl.float32)
        ky = (ky * k_size * far).to(kind).to(tl.float32)
    q = (qx * c[None, :] + qy * s[None, :]).to(kind)
    k = (kx * c + ky * s).to(kind)
    new = cache + (base + spot) * STRIDE + kv * WIDTH + d
    tl.store(new, k)
    tl.store(new + KV * WIDTH, v)
    # The new key is attended from registers; what lies before it is not written in this launch.
    top = tl.sum(q.to(tl.float32) * k.to(tl.float32)[None, :], 1) * scale
    total = tl.full([LANES], 1.0, tl.float32)
    told = tl.zeros([LANES, WIDTH], tl.float32) + v.to(tl.float32)[None, :]
    for first in range(0, spot, BLOCK):
        j = first + tl.arange(0, BLOCK)
        seen = j < spot
        source = (tl.where(j < length, lead, base) + j) * STRIDE + kv * WIDTH
        where = cache + source[:, None] + d[None, :]
        keys = tl.load(where, mask=seen[:, None], other=0.0)
        values = tl.load(where + KV * WIDTH, mask=seen[:, None], other=0.0)
        score = tl.dot(q, tl.trans(keys)) * scale
        score = tl.where(seen[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(weight, 1)
        told = told * shrink[:, None] + tl.dot(weight.to(kind), values)
        top = higher
    asked = out + row * HEADS * WIDTH + (kv * GROUPS + lane[:, None]) * WIDTH + d[None, :]
    tl.store(asked, (told / total[:, None]).to(out.dtype.element_ty), mask=asks)


@triton.jit(do_not_specialize_on_alignment=["starts_q", "starts_k", "used"])
def span(
    queries, keys, values, starts_q, starts_k, used, out, scale,
    HEADS: tl.constexpr, KV: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
    TILE: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Attend with a few tokens of one row, all queries of one key head together."""
    row = tl.program_id(0)
    kv = tl.program_id(1)
    GROUPS: tl.constexpr = HEADS // KV
    first = tl.load(starts_q + row).to(tl.int64)
    count = (tl.load(starts_q + row + 1) - first).to(tl.int32)
    start = tl.program_id(2) * TILE
    if start >= count:
        return
    base = tl.load(starts_k + row).to(tl.int64)
    before = tl.load(used + row).to(tl.int32) - count
    lane = tl.arange(0, TILE * SHARE)
    token = start + lane // SHARE
    head = lane % SHARE
    d = tl.arange(0, WIDTH)
    asks = ((token < count) & (head < GROUPS))[:, None]
    at = ((first + token) * HEADS + kv * GROUPS + head) * WIDTH
    q = tl.load(queries + at[:, None] + d[None, :], mask=asks, other=0.0)
    sees = before + token + 1
    end = before + tl.minimum(count, start + TILE)
    kind = values.dtype.element_ty
    top = tl.full([TILE * SHARE], float("-inf"), tl.float32)
    total = tl.zeros([TILE * SHARE], tl.float32)
    told = tl.zeros([TILE * SHARE, WIDTH], tl.float32)
    for j0 in range(0, end, BLOCK):
        j = j0 + tl.arange(0, BLOCK)
        there = (j < end)[:, None]
        where = (base + j)[:, None] * STRIDE + kv * WIDTH + d[None, :]
        k = tl.load(keys + where, mask=there, other=0.0)
        v = tl.load(values + where, mask=there, other=0.0)
        score = tl.dot(q, tl.trans(k)) * scale
        score = tl.where((j[None, :] < sees[:, None]) & (j < end)[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(weight, 1)
        told = told * shrink[:, None] + tl.dot(weight.to(kind), v)
        top = higher
    found = (told / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + at[:, None] + d[None, :], found, mask=asks)
