"""The Triton kernels: norm, gate, rotate-and-store, attention, and n-gram lookup.

One launch each instead of six or more: for a small model on a large GPU launches dominate a step.
`kernels` launches them; `selfcheck` defines their results in plain torch. Triton comes with torch
on CUDA; import this module only there, or under Triton's interpreter.

Keys start where each row's cache begins; the first of them, a prefix shared by several rows, may be
read from one copy, which then stays in the cache of the device. Query heads that share a key head
are attended together, so that keys are read once for all of them. Softmax sums use powers of two.
Invariants: a program writes only its own token's place in the cache, and the result does not depend
on which copy of a prefix is read.
"""

# Triton is not a dependency and has no types, and its compiler requires upper-case constants.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


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
def gate(gate_up, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Return silu of the first half of one row times the second."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = d < WIDTH
    first = tl.load(gate_up + row * 2 * WIDTH + d, mask=live, other=0.0).to(tl.float32)
    second = tl.load(gate_up + row * 2 * WIDTH + WIDTH + d, mask=live, other=0.0).to(tl.float32)
    found = first / (1.0 + tl.exp(-first)) * second
    tl.store(out + row * WIDTH + d, found.to(out.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize_on_alignment=["positions", "flat"])
def place(
    qkv, cos, sin, positions, flat, cache, queries, q_norm, k_norm, epsilon,
    HEADS: tl.constexpr, KV: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    NORMED: tl.constexpr,
):  # fmt: skip
    """Rotate one token's queries and keys; store keys and values at their place in the cache."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, LANES)
    d = tl.arange(0, WIDTH)
    across = (d + WIDTH // 2) % WIDTH
    live = (head < HEADS + 2 * KV)[:, None]
    turns = (head < HEADS + KV)[:, None]
    asks = (head < HEADS)[:, None]
    angle = tl.load(positions + token).to(tl.int64) * WIDTH
    c = tl.load(cos + angle + d).to(tl.float32)[None, :]
    s = tl.load(sin + angle + d).to(tl.float32)[None, :]
    rows = qkv + token * (HEADS + 2 * KV) * WIDTH + head[:, None] * WIDTH
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


@triton.jit
def softmax_update(q, k, v, seen, peak, total, acc, scale, MASKED: tl.constexpr):
    """Add a block of keys and values to a running softmax; if `MASKED`, a query may see none."""
    score = tl.dot(q, tl.trans(k)) * scale
    if MASKED:
        score = tl.where(seen, score, float("-inf"))
    higher = tl.maximum(peak, tl.max(score, 1))
    level = tl.where(higher == float("-inf"), 0.0, higher) if MASKED else higher
    weight = tl.exp2(score - level[:, None])
    shrink = tl.exp2(peak - level)
    total = total * shrink + tl.sum(weight, 1)
    return higher, total, tl.dot(weight.to(v.dtype), v, acc * shrink[:, None])


@triton.jit
def attend_range(
    q, keys, values, low, high, sees, peak, total, acc, scale, d,
    STRIDE: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Attend to the keys from `low` to `high`; unless `MASKED`, every query sees all of them."""
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
        peak, total, acc = softmax_update(q, k, v, seen, peak, total, acc, scale, MASKED)
    return peak, total, acc


@triton.jit
def merge_splits(
    parts, counter, group, split, lane, d, peak, total, acc,
    LANES: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Store the sums over one part of the keys; the last program to do so returns the total."""
    SIZE: tl.constexpr = LANES * (WIDTH + 2)
    mine = parts + (group * SPLITS + split).to(tl.int64) * SIZE
    tl.store(mine + lane[:, None] * WIDTH + d[None, :], acc)
    tl.store(mine + LANES * WIDTH + lane, peak)
    tl.store(mine + LANES * (WIDTH + 1) + lane, total)
    tl.debug_barrier()  # all sums are stored before they are counted
    last = tl.atomic_add(counter + group, 1) == SPLITS - 1
    if last:
        tl.store(counter + group, 0)
        peak = tl.full([LANES], float("-inf"), tl.float32)
        total = tl.zeros([LANES], tl.float32)
        acc = tl.zeros([LANES, WIDTH], tl.float32)
        for other in range(SPLITS):  # in order, whichever program was last
            its = parts + (group * SPLITS + other).to(tl.int64) * SIZE
            more = tl.load(its + lane[:, None] * WIDTH + d[None, :], cache_modifier=".cg")
            height = tl.load(its + LANES * WIDTH + lane, cache_modifier=".cg")
            size = tl.load(its + LANES * (WIDTH + 1) + lane, cache_modifier=".cg")
            higher = tl.maximum(peak, height)
            level = tl.where(higher == float("-inf"), 0.0, higher)
            before, after = tl.exp2(peak - level), tl.exp2(height - level)
            total = total * before + size * after
            acc = acc * before[:, None] + more * after[:, None]
            peak = higher
    return last, total, acc


@triton.jit(do_not_specialize_on_alignment=["positions", "bases", "leads", "lengths"])
def step(
    qkv, cos, sin, positions, bases, leads, lengths, cache, out, counter, parts,
    q_norm, k_norm, epsilon, scale,
    HEADS: tl.constexpr, KV: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    BLOCK: tl.constexpr, SPLITS: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """Rotate, store and attend for one key head of a row with one new token, over part of its keys.

    The first `lengths` keys are read from `leads`, so that rows of one prefix read one copy of it.
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
    spot = tl.load(positions + row).to(tl.int32)
    base = tl.load(bases + row).to(tl.int64)
    lead = tl.load(leads + row).to(tl.int64)
    length = tl.load(lengths + row).to(tl.int32)
    c = tl.load(cos + spot.to(tl.int64) * WIDTH + d).to(tl.float32)
    s = tl.load(sin + spot.to(tl.int64) * WIDTH + d).to(tl.float32)
    own = qkv + row * (HEADS + 2 * KV) * WIDTH
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
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    acc = tl.zeros([LANES, WIDTH], tl.float32)
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
        # The new key is attended from registers: a launch does not read its own cache writes.
        peak = tl.sum(q.to(tl.float32) * k.to(tl.float32)[None, :], 1) * by
        total = tl.full([LANES], 1.0, tl.float32)
        acc = tl.zeros([LANES, WIDTH], tl.float32) + v.to(tl.float32)[None, :]
    chunk = tl.cdiv(tl.cdiv(spot, SPLITS), BLOCK) * BLOCK
    high = tl.minimum(spot, (split + 1) * chunk)
    for first in range(split * chunk, high, BLOCK):
        j = first + tl.arange(0, BLOCK)
        seen = j < high
        source = (tl.where(j < length, lead, base) + j) * STRIDE + kv * WIDTH
        where = cache + source[:, None] + d[None, :]
        keys = tl.load(where, mask=seen[:, None], other=0.0)
        values = tl.load(where + KV * WIDTH, mask=seen[:, None], other=0.0)
        peak, total, acc = softmax_update(
            q, keys, values, seen[None, :], peak, total, acc, by, True
        )
    last = True
    if SPLITS > 1:
        group = tl.program_id(2) * KV + kv
        last, total, acc = merge_splits(
            parts, counter, group, split, lane, d, peak, total, acc, LANES, WIDTH, SPLITS
        )
    if last:
        asked = out + row * HEADS * WIDTH + (kv * GROUPS + lane[:, None]) * WIDTH + d[None, :]
        tl.store(asked, (acc / total[:, None]).to(out.dtype.element_ty), mask=asks)


@triton.jit(
    do_not_specialize=["rows"],
    do_not_specialize_on_alignment=["starts", "bases", "used", "leads", "lengths"],
)
def attend(
    queries, keys, values, starts, bases, used, leads, lengths, out, rows, scale,
    HEADS: tl.constexpr, KV: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
    LANES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Attend with a tile of one row's tokens, all queries of one key head together.

    Tiles are counted over all rows: a row's first tile follows from the start of its tokens, so
    that rows without tokens cost only one tile each.
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
    # All queries see the keys before their tile; whole blocks of these are attended unmasked.
    open_ = tl.maximum(0, before + start + 1) // BLOCK * BLOCK
    shared = tl.minimum(open_, length // BLOCK * BLOCK)
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    acc = tl.zeros([LANES, WIDTH], tl.float32)
    by = scale * LOG2E
    peak, total, acc = attend_range(
        q, keys + lead, values + lead, 0, shared, sees, peak, total, acc, by, d,
        STRIDE, BLOCK, False,
    )  # fmt: skip
    peak, total, acc = attend_range(
        q, keys + base, values + base, shared, open_, sees, peak, total, acc, by, d,
        STRIDE, BLOCK, False,
    )  # fmt: skip
    peak, total, acc = attend_range(
        q, keys + base, values + base, open_, end, sees, peak, total, acc, by, d,
        STRIDE, BLOCK, True,
    )  # fmt: skip
    found = acc / tl.where(total == 0.0, 1.0, total)[:, None]  # padding sees nothing
    tl.store(out + at[:, None] + d[None, :], found.to(out.dtype.element_ty), mask=asks)


@triton.jit
def read_token(text, history, at, own, inside):
    """Return tokens of a row's text followed by the history."""
    mine = tl.load(text + at, mask=inside & (at < own), other=-1)
    earlier = tl.load(history + at - own, mask=inside & (at >= own), other=-1)
    return tl.where(at < own, mine, earlier)


@triton.jit(do_not_specialize=["own", "whole"])
def propose(
    texts, slots, places, history, out, own, whole,
    COUNT: tl.constexpr, WIDTH: tl.constexpr, ORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find the best match of a row's last tokens, and store the tokens after it."""
    row = tl.program_id(0)
    text = texts + tl.load(slots + row).to(tl.int64) * own
    place = tl.load(places + row).to(tl.int32)
    best = tl.full([BLOCK], -1, tl.int32)
    for first in range(0, whole, BLOCK):
        column = first + tl.arange(0, BLOCK)
        alike = tl.zeros([BLOCK], tl.int32)
        for back in tl.static_range(ORDER):
            last = tl.load(text + tl.maximum(place - back, 0))
            at = column - back
            value = read_token(text, history, at, own, (at >= 0) & (column < whole))
            alike += (value == last).to(tl.int32) << (ORDER - 1 - back)
        known = (column >= ORDER - 1) & ((column < place) | (column >= own)) & (column < whole)
        best = tl.maximum(best, tl.where(known, alike * whole + column, -1))
    found = tl.max(best, 0) % whole
    period = tl.where(found < own, place - found, whole)
    ahead = tl.arange(0, WIDTH)
    at = tl.minimum(found + 1 + ahead % period, whole - 1)
    value = read_token(text, history, at, own, at >= 0)
    tl.store(out + row * COUNT + ahead, tl.maximum(value, 0), mask=ahead < COUNT)
