"""Prefix sharing: tokens that several sequences begin with are computed once.

The row holds a sequence only from the token at which it differs from another one; the keys and
values of its prefix are rows of that other sequence. Either all sequences share one prefix, whose
length is nearly the same in every pass, or prefixes form a tree: records of one task share its
text, an orbit pair its contract. Invariant: the keys of a sequence are its tokens, first to last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from waggle.scd.data.arrays import Index, spans

COMMON = (128, 32)
"""Minimum length and length step, in tokens, of a prefix shared by all sequences. The step keeps
the length the same in every pass. Tokenizers that need fewer tokens for it gain nothing."""


class SharedPrefixes(NamedTuple):
    """The number of tokens that each sequence borrows from another."""

    order: Index
    """Sequence indices, in an order in which each borrows from the one before it."""
    skip: Index
    """Number of first tokens that each sequence borrows."""


def common_prefix(ids: NDArray[Any], starts: Index, limit: int) -> SharedPrefixes | None:
    """Let all sequences borrow their common prefix from the first; None if it is too short."""
    least, step = COMMON
    if len(starts) < 2 or limit < least or np.ptp(ids[starts + least - 1]):
        return None
    first = ids[starts[:, None] + np.arange(limit)]
    same = (first == first[0]).all(0)
    length = limit if same.all() else int(same.argmin())
    if length < least:
        return None
    skip = np.full(len(starts), length // step * step, np.int64)
    skip[0] = 0
    return SharedPrefixes(np.arange(len(starts)), skip)


def prefix_tree(ids: NDArray[Any], starts: Index, inputs: Index, limits: Index) -> SharedPrefixes:
    """Let every sequence borrow the prefix it shares with the one before it in sorted order.

    Args:
        ids: tokens of all sequences.
        starts: start of each sequence.
        inputs: number of tokens of each sequence that are read.
        limits: maximum number of tokens that each sequence may borrow.
    """
    read = [ids[start : start + count] for start, count in zip(starts, inputs, strict=True)]
    order = sorted_by_tokens(ids, starts, inputs)
    skip = np.zeros(len(read), np.int64)
    for one, other in pairwise(order):
        most = min(len(read[one]), int(limits[other]))
        same = read[one][:most] == read[other][:most]
        skip[other] = most if same.all() else int(same.argmin())
    return SharedPrefixes(order, skip)


def sorted_by_tokens(ids: NDArray[Any], starts: Index, inputs: Index) -> Index:
    """Return sequence indices sorted by tokens; neighbours share the longest prefixes."""
    spelled = [
        ids[start : start + count].astype(">u4").tobytes()
        for start, count in zip(starts, inputs, strict=True)
    ]
    return np.array(sorted(range(len(spelled)), key=spelled.__getitem__), np.int64)


class Keys(NamedTuple):
    """The row that each key of a pass is read from, in host memory.

    A key is read either from a row of its own sequence or from a borrowed row; it is then called a
    copy. Sequences `a b c` and `a b d`, of which the second borrows two tokens, give:

        row     a b c d       bounds  0 3 6      shared  0 1
        keys    0 1 2 0 1 3   own     0 1 2 5    copies  3 4    ends  0 1 2
    """

    keys: Index
    """Row of each key; the keys of a sequence are complete and contiguous."""
    bounds: NDArray[np.int32]
    """Start of each sequence's keys, then the end; int32, as attention kernels require."""
    own: Index
    """Index in `keys` of each row, as a key of its own sequence."""
    shared: Index
    """Rows that other sequences read too."""
    copies: Index
    """Indices in `keys` of these rows as keys of other sequences, grouped by row."""
    ends: Index
    """Start of each shared row's group in `copies`, then the end."""


def join_keys(borrowed: SharedPrefixes, counts: Index) -> Keys:
    """Return the row that each key is read from.

    Args:
        borrowed: number of tokens that each sequence borrows.
        counts: rows of each sequence; sequences beyond those of `borrowed` borrow nothing.
    """
    starts = np.cumsum(counts) - counts
    rows = [np.arange(s, s + n) for s, n in zip(starts, counts, strict=True)]
    for lender, borrower in pairwise(borrowed.order):
        prefix = rows[lender][: borrowed.skip[borrower]]
        rows[borrower] = np.concatenate((prefix, rows[borrower]))
    keys: Index = np.concatenate(rows)
    bounds = bounds_of(np.array([len(row) for row in rows], np.int64))
    # The borrowed prefix comes first, so the own rows are the last keys of each sequence.
    own = spans(bounds[1:] - counts, counts)

    is_copy = np.ones(len(keys), np.bool_)
    is_copy[own] = False
    copies = np.flatnonzero(is_copy)
    copies = copies[np.argsort(keys[copies], kind="stable")]
    shared, group_sizes = np.unique(keys[copies], return_counts=True)
    return Keys(keys, bounds.astype(np.int32), own, shared, copies, bounds_of(group_sizes))


def bounds_of(lengths: Index) -> Index:
    """Return the start of each of several segments that lie end to end, then the end."""
    return np.concatenate(([0], np.cumsum(lengths)))


@dataclass
class SharedKeys:
    """`Keys` on the device."""

    keys: Tensor
    bounds: Tensor
    own: Tensor
    shared: Tensor
    copies: Tensor
    ends: Tensor

    def spread(self, states: Tensor) -> Tensor:
        """Return the keys (or values) of all sequences, one after another."""
        found: Tensor = _spread(states, self.keys, self.own, self.shared, self.copies, self.ends)
        return found


@torch.library.custom_op("waggle::spread", mutates_args=())
def _spread(
    states: Tensor, keys: Tensor, own: Tensor, shared: Tensor, copies: Tensor, ends: Tensor
) -> Tensor:
    """Select rows; only the gradient, `_spread_back`, uses the indices after `keys`."""
    return states.index_select(0, keys)


@_spread.register_fake
def _(
    states: Tensor, keys: Tensor, own: Tensor, shared: Tensor, copies: Tensor, ends: Tensor
) -> Tensor:
    return states.new_empty(keys.shape[0], *states.shape[1:])


@torch.library.custom_op("waggle::spread_back", mutates_args=())
def _spread_back(
    gradient: Tensor, own: Tensor, shared: Tensor, copies: Tensor, ends: Tensor
) -> Tensor:
    """Return the gradient of every row from that of every key.

    The gradients of a row's copies are summed in a fixed order and in float32. The gradient of
    `index_select` would add them atomically, many times to the same row.
    """
    rows = gradient.index_select(0, own)
    if not copies.numel():
        return rows
    by_copy = gradient.index_select(0, copies).flatten(1).float()
    in_order = _sums_in_order(gradient.device.type)
    sums = _segment_sums(by_copy, ends) if in_order else _atomic_sums(by_copy, ends)
    totals = sums.view(-1, *rows.shape[1:]) + rows.index_select(0, shared)
    return rows.index_copy_(0, shared, totals.to(rows.dtype))


@_spread_back.register_fake
def _(gradient: Tensor, own: Tensor, shared: Tensor, copies: Tensor, ends: Tensor) -> Tensor:
    return gradient.new_empty(own.shape[0], *gradient.shape[1:])


def _save_indices(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _states, _keys, own, shared, copies, ends = inputs
    ctx.save_for_backward(own, shared, copies, ends)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    # Only the states, the first input, have a gradient.
    return (_spread_back(gradient, *ctx.saved_tensors), None, None, None, None, None)


_spread.register_autograd(_backward, setup_context=_save_indices)


def _segment_sums(each: Tensor, ends: Tensor) -> Tensor:
    """Sum segments of rows, each in its order."""
    found: Tensor = torch.segment_reduce(each, "sum", offsets=ends, axis=0, unsafe=True)
    return found


def _atomic_sums(each: Tensor, ends: Tensor) -> Tensor:
    """Sum segments of rows in any order."""
    segment = torch.repeat_interleave(ends.diff(), output_size=each.shape[0])
    return each.new_zeros(len(ends) - 1, each.shape[1]).index_add_(0, segment, each)


@lru_cache(maxsize=4)
def _sums_in_order(kind: str) -> bool:
    """Return whether segment sums work on a kind of device, where torch's function may be new."""
    each = torch.arange(12.0, device=kind).view(6, 2)
    ends = torch.tensor([0, 2, 3, 6], device=kind)
    try:
        return torch.equal(_segment_sums(each, ends), _atomic_sums(each, ends))
    except (RuntimeError, NotImplementedError, TypeError):
        return False
