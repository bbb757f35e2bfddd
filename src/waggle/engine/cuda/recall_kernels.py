"""A kernel that recalls, in one launch, what `waggle.engine.cuda.recall` finds in many.

Written in Triton, as `cuda.mix_kernels`, which says why; import this module only on CUDA.
"""

# Triton is no dependency, has no types, and its compiler wants upper-case constants.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def read(text, answers, at, own, inside):
    """Return tokens of a row's text and, behind it, of the answers."""
    mine = tl.load(text + at, mask=inside & (at < own), other=-1)
    told = tl.load(answers + at - own, mask=inside & (at >= own), other=-1)
    return tl.where(at < own, mine, told)


@triton.jit(do_not_specialize=["own", "whole"])
def recall(
    texts, slots, places, answers, out, own, whole,
    COUNT: tl.constexpr, WIDTH: tl.constexpr, ORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find the place that is most like a row's last tokens, and what followed it."""
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
            value = read(text, answers, at, own, (at >= 0) & (column < whole))
            alike += (value == last).to(tl.int32) << (ORDER - 1 - back)
        known = (column >= ORDER - 1) & ((column < place) | (column >= own)) & (column < whole)
        best = tl.maximum(best, tl.where(known, alike * whole + column, -1))
    found = tl.max(best, 0) % whole
    period = tl.where(found < own, place - found, whole)
    ahead = tl.arange(0, WIDTH)
    at = tl.minimum(found + 1 + ahead % period, whole - 1)
    value = read(text, answers, at, own, at >= 0)
    tl.store(out + row * COUNT + ahead, tl.maximum(value, 0), mask=ahead < COUNT)
