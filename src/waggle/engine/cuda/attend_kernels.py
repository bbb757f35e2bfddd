"""Kernels that attend: rows of one new token, and rows of any number of them.

Written in Triton, as `cuda.mix_kernels`, which says why; import this module only on CUDA.
Keys lie where each row's cache begins; the first of them, a prefix that several rows share, may be
read from one copy, which then stays in the cache of the device. Query heads that share a key head
are attended together, so that keys are read once for all of them. Sums run in powers of two.
Invariant: what is attended does not depend on which copy of a prefix is read.
"""

# Triton is no dependency, has no types, and its compiler wants upper-case constants.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def weigh(q, k, v, seen, top, total, told, scale, MASKED: tl.constexpr):
    """Take some keys and values into a running softmax; a query may see none where `MASKED`."""
    score = tl.dot(q, tl.trans(k)) * scale
    if MASKED:
        score = tl.where(seen, score, float("-inf"))
    higher = tl.maximum(top, tl.max(score, 1))
    level = tl.where(higher == float("-inf"), 0.0, higher) if MASKED else higher
    weight = tl.exp2(score - level[:, None])
    shrink = tl.exp2(top - level)
    total = total * shrink + tl.sum(weight, 1)
    return higher, total, tl.dot(weight.to(v.dtype), v, told * shrink[:, None])


@triton.jit
def look(
    q, keys, values, low, high, sees, top, total, told, scale, d,
    STRIDE: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Attend to the keys between two places; where not `MASKED`, all of them are seen by all."""
    for first in range(low, high, BLOCK):
        j = first + tl.arange(0, BLOCK)
        at = j[:, None] * STRIDE + d[None, :]
        if MASKED:
            there = (j < high)[:, None]
            k = tl.load(keys + at, mask=there, other=0.0)
            v = tl.load(values + at, mask=there, other=0.0)
        else:
            k = tl.load(keys + at)
            v = tl.load(values + at)
        seen = j[None, :] < sees[:, None]
        top, total, told = weigh(q, k, v, seen, top, total, told, scale, MASKED)
    return top, total, told


@triton.jit
def joined(
    parts, counter, group, split, lane, d, top, total, told,
    LANES: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Leave the sums over a part of the keys; the last to do so gets those over all of them."""
    SIZE: tl.constexpr = LANES * (WIDTH + 2)
    mine = parts + (group * SPLITS + split).to(tl.int64) * SIZE
    tl.store(mine + lane[:, None] * WIDTH + d[None, :], told)
    tl.store(mine + LANES * WIDTH + lane, top)
    tl.store(mine + LANES * (WIDTH + 1) + lane, total)
    tl.debug_barrier()  # all of it is there before it is counted
    last = tl.atomic_add(counter + group, 1) == SPLITS - 1
    if last:
        tl.store(counter + group, 0)
        top = tl.full([LANES], float("-inf"), tl.float32)
        total = tl.zeros([LANES], tl.float32)
        told = tl.zeros([LANES, WIDTH], tl.float32)
        for other in range(SPLITS):  # in order, whoever was last
            its = parts + (group * SPLITS + other).to(tl.int64) * SIZE
            more = tl.load(its + lane[:, None] * WIDTH + d[None, :], cache_modifier=".cg")
            height = tl.load(its + LANES * WIDTH + lane, cache_modifier=".cg")
            size = tl.load(its + LANES * (WIDTH + 1) + lane, cache_modifier=".cg")
            higher = tl.maximum(top, height)
            level = tl.where(higher == float("-inf"), 0.0, higher)
            before, after = tl.exp2(top - level), tl.exp2(height - level)
            total = total * before + size * after
            told = told * before[:, None] + more * after[:, None]
            top = higher
    return last, total, told


@triton.jit(do_not_specialize_on_alignment=["angles", "bases", "leads", "lengths"])
def step(
    fused, cos, sin, angles, bases, leads, lengths, cache, out, counter, parts,
    q_norm, k_norm, epsilon, scale,
    HEADS: tl.constexpr, KV: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    BLOCK: tl.constexpr, SPLITS: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """Turn, keep and attend for one key head of a row that has one new token, over some keys.

    The first `lengths` keys are read where `leads` begins: rows of one prefix read one copy of it.
    """
    split = tl.program_id(0)
    kv = tl.program_id(1)
    row = tl.program_id(2).to(tl.int64)
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
    kind = cache.dtype.element_ty
    if NORMED:
        q_size = tl.rsqrt(tl.sum(qx * qx, 1) / WIDTH + epsilon)[:, None]
        near, far = tl.load(q_norm + d).to(tl.float32), tl.load(q_norm + across).to(tl.float32)
        qx = (qx * q_size * near[None, :]).to(kind).to(tl.float32)
        qy = (qy * q_size * far[None, :]).to(kind).to(tl.float32)
    q = (qx * c[None, :] + qy * s[None, :]).to(kind)
    top = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    told = tl.zeros([LANES, WIDTH], tl.float32)
    by = scale * LOG2E
    if split == 0:
        kx = tl.load(own + (HEADS + kv) * WIDTH + d).to(tl.float32)
        ky = tl.load(own + (HEADS + kv) * WIDTH + across).to(tl.float32)
        v = tl.load(own + (HEADS + KV + kv) * WIDTH + d)
        if NORMED:
            k_size = tl.rsqrt(tl.sum(kx * kx, 0) / WIDTH + epsilon)
            near, far = tl.load(k_norm + d).to(tl.float32), tl.load(k_norm + across).to(tl.float32)
            kx = (kx * k_size * near).to(kind).to(tl.float32)
            ky = (ky * k_size * far).to(kind).to(tl.float32)
        k = (kx * c + ky * s).to(kind)
        new = cache + (base + spot) * STRIDE + kv * WIDTH + d
        tl.store(new, k)
        tl.store(new + KV * WIDTH, v)
        # The new key is attended from registers: nobody reads what is written in this launch.
        top = tl.sum(q.to(tl.float32) * k.to(tl.float32)[None, :], 1) * by
        total = tl.full([LANES], 1.0, tl.float32)
        told = tl.zeros([LANES, WIDTH], tl.float32) + v.to(tl.float32)[None, :]
    chunk = tl.cdiv(tl.cdiv(spot, SPLITS), BLOCK) * BLOCK
    high = tl.minimum(spot, (split + 1) * chunk)
    for first in range(split * chunk, high, BLOCK):
        j = first + tl.arange(0, BLOCK)
        seen = j < high
        source = (tl.where(j < length, lead, base) + j) * STRIDE + kv * WIDTH
        where = cache + source[:, None] + d[None, :]
        keys = tl.load(where, mask=seen[:, None], other=0.0)
        values = tl.load(where + KV * WIDTH, mask=seen[:, None], other=0.0)
        top, total, told = weigh(q, keys, values, seen[None, :], top, total, told, by, True)
    last = True
    if SPLITS > 1:
        group = tl.program_id(2) * KV + kv
        last, total, told = joined(
            parts, counter, group, split, lane, d, top, total, told, LANES, WIDTH, SPLITS
        )
    if last:
        asked = out + row * HEADS * WIDTH + (kv * GROUPS + lane[:, None]) * WIDTH + d[None, :]
        tl.store(asked, (told / total[:, None]).to(out.dtype.element_ty), mask=asks)


@triton.jit(
    do_not_specialize=["rows"],
    do_not_specialize_on_alignment=["starts", "bases", "used", "leads", "lengths"],
)
def span(
    queries, keys, values, starts, bases, used, leads, lengths, out, rows, scale,
    HEADS: tl.constexpr, KV: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
    LANES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Attend with some tokens of one row, all queries of one key head together.

    Tiles are counted over all rows: a row's first one is known from where its tokens start, so that
    rows without tokens cost one tile each and nothing else.
    """
    GROUPS: tl.constexpr = HEADS // KV
    TILE: tl.constexpr = LANES // GROUPS
    tile = tl.program_id(0)
    kv = tl.program_id(1)
    every = tl.arange(0, ROWS)
    begins = tl.load(starts + every, mask=every < rows, other=1 << 30).to(tl.int32)
    row = tl.sum((begins // TILE + every <= tile).to(tl.int32), 0) - 1
    first = tl.load(starts + row).to(tl.int32)
    count = tl.load(starts + row + 1).to(tl.int32) - first
    start = (tile - first // TILE - row) * TILE
    if start >= count:
        return
    before = tl.load(used + row).to(tl.int32) - count
    base = tl.load(bases + row).to(tl.int64) * STRIDE + kv * WIDTH
    lead = tl.load(leads + row).to(tl.int64) * STRIDE + kv * WIDTH
    length = tl.load(lengths + row).to(tl.int32)
    lane = tl.arange(0, LANES)
    token = start + lane // GROUPS
    d = tl.arange(0, WIDTH)
    asks = ((token < count) & (lane < TILE * GROUPS))[:, None]
    at = ((first.to(tl.int64) + token) * HEADS + kv * GROUPS + lane % GROUPS) * WIDTH
    q = tl.load(queries + at[:, None] + d[None, :], mask=asks, other=0.0)
    sees = before + token + 1
    end = before + tl.minimum(count, start + TILE)
    # All queries see the keys before their tile; of these, whole blocks are looked at unmasked.
    open_ = tl.maximum(0, before + start + 1) // BLOCK * BLOCK
    shared = tl.minimum(open_, length // BLOCK * BLOCK)
    top = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    told = tl.zeros([LANES, WIDTH], tl.float32)
    by = scale * LOG2E
    top, total, told = look(
        q, keys + lead, values + lead, 0, shared, sees, top, total, told, by, d,
        STRIDE, BLOCK, False,
    )  # fmt: skip
    top, total, told = look(
        q, keys + base, values + base, shared, open_, sees, top, total, told, by, d,
        STRIDE, BLOCK, False,
    )  # fmt: skip
    top, total, told = look(
        q, keys + base, values + base, open_, end, sees, top, total, told, by, d,
        STRIDE, BLOCK, True,
    )  # fmt: skip
    found = told / tl.where(total == 0.0, 1.0, total)[:, None]  # padding sees nothing
    tl.store(out + at[:, None] + d[None, :], found.to(out.dtype.element_ty), mask=asks)
