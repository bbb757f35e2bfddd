"""Which beginning each sequence of a pass borrows from another, and whose rows its keys are then.

In the order of their tokens every sequence begins as the one before it, up to some token: that much
of it is not computed again. Invariant: the keys of a sequence are its tokens, first to last.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.scd.data.arrays import Index, within


class Chain(NamedTuple):
    """Which beginning each sequence borrows."""

    order: Index
    """Sequences in the order of their tokens; each borrows from the one before it."""
    skip: Index
    """How many first tokens each borrows, by sequence."""


class Keys(NamedTuple):
    """Where the keys of a pass come from."""

    keys: Index
    """Row that each key is read from: sequences one after another, whole."""
    bounds: Index
    """Where the keys of sequences start, and the end."""
    own: Index
    """Where each row stands among the keys of its own sequence."""
    shared: Index
    """Rows that other sequences read too."""
    copies: Index
    """Where these rows stand among the keys of others, row by row."""
    ends: Index
    """Where the copies of each shared row start, and the end."""


def chain(ids: NDArray[Any], starts: Index, fed: Index, limits: Index) -> Chain:
    """Find what every sequence has in common with the one before it.

    Args:
        ids: tokens of all sequences.
        starts: where each starts.
        fed: how many tokens of each are read.
        limits: no more than so many of each may be borrowed.
    """
    read = [ids[start : start + count] for start, count in zip(starts, fed, strict=True)]
    order = in_order(ids, starts, fed)
    skip = np.zeros(len(read), np.int64)
    for one, other in pairwise(order):
        most = min(len(read[one]), int(limits[other]))
        same = read[one][:most] == read[other][:most]
        skip[other] = most if same.all() else int(same.argmin())
    return Chain(order, skip)


def in_order(ids: NDArray[Any], starts: Index, fed: Index) -> Index:
    """Return sequences in the order of their tokens."""
    spelled = [
        ids[start : start + count].astype(">u4").tobytes()
        for start, count in zip(starts, fed, strict=True)
    ]
    return np.array(sorted(range(len(spelled)), key=spelled.__getitem__), np.int64)


def grown(found: Chain, counts: Index) -> Keys:
    """Put the keys of all sequences together.

    Args:
        found: what each sequence borrows.
        counts: rows of each sequence, as they lie; those beyond the chain borrow nothing.
    """
    starts = np.cumsum(counts) - counts
    rows = [np.arange(s, s + n) for s, n in zip(starts, counts, strict=True)]
    for one, other in pairwise(found.order):
        rows[other] = np.concatenate((rows[one][: found.skip[other]], rows[other]))
    keys: Index = np.concatenate(rows)
    lengths = np.array([len(row) for row in rows], np.int64)
    own = within(np.cumsum(lengths) - counts, counts)
    borrowed = np.ones(len(keys), np.bool_)
    borrowed[own] = False
    copies = np.flatnonzero(borrowed)
    copies = copies[np.argsort(keys[copies], kind="stable")]
    shared, times = np.unique(keys[copies], return_counts=True)
    bounds, ends = (np.concatenate(([0], np.cumsum(n))) for n in (lengths, times))
    return Keys(keys, bounds, own, shared, copies, ends)
