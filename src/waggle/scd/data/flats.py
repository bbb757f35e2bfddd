"""Flat batches: cut out of arrays without a Python loop, and copied to the device ahead.

Invariant: losses cover assistant tokens only, each record weighs the same, and which records an
update uses is a function of (seed, update).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from waggle.core.seeds import derive
from waggle.corpus.store import CorpusError
from waggle.scd.data.arrays import Index, groups, within
from waggle.scd.data.chains import Chain, chain, grown
from waggle.scd.data.speller import Tokens
from waggle.scd.forward.flat import Flat, Shared
from waggle.scd.forward.tree import Tree

SHARED = (128, 32)
"""A common beginning of at least so many tokens is computed once, in steps of so many: its length
is then the same in every pass. A tokenizer that spells it in fewer gains nothing."""

LONGEST = 2048
"""On CUDA no pass is launched for shorter sequences than this: it costs nothing there, and fewer
shapes occur."""


class Flats:
    """Makes flat batches of a token corpus."""

    def __init__(
        self, tokens: Tokens, seed: int, batch: int, *, mean: bool, device: str, fixed: bool = False
    ) -> None:
        if not len(tokens):
            raise CorpusError("no records to train on; raise `native` in [harvest]")
        self._tokens, self._starts = tokens, tokens.starts()
        self._seed, self._size, self._mean, self._device = seed, batch, mean, device
        self._fixed = fixed
        self._orders: dict[int, Index] = {}

    def batch(self, update: int) -> Flat:
        """Return the records of an update."""
        return self.of(self.chosen(update))

    def chosen(self, update: int) -> Index:
        """Return which records an update uses: whole passes in an order drawn per pass."""
        count, first, last = len(self._tokens), update * self._size, (update + 1) * self._size
        epochs = range(first // count, (last - 1) // count + 1)
        parts = [self._order(e)[max(0, first - e * count) : last - e * count] for e in epochs]
        return np.concatenate(parts)

    def _order(self, epoch: int) -> Index:
        if epoch not in self._orders:
            seed = derive(self._seed, "pass order", "tokens", epoch)
            drawn = np.random.Generator(np.random.PCG64(seed)).permutation(len(self._tokens))
            self._orders = {epoch: drawn, **dict(list(self._orders.items())[:1])}
        return self._orders[epoch]

    def of(self, rows: Index) -> Flat:
        """Lay some records end to end; the last token of a record is only ever predicted."""
        lengths = self._tokens.lengths[rows].astype(np.int64)
        prompts = self._tokens.prompts[rows].astype(np.int64)
        ids = self._tokens.ids[within(self._starts[rows], lengths)]
        return laid(ids, lengths, prompts, device=self._device, mean=self._mean, fixed=self._fixed)

    def passes(self, rows: Index, budget: int) -> Iterator[Flat]:
        """Lay some records out in passes of at most so many tokens; one record may exceed it."""
        for group in groups(self._tokens.lengths[rows].astype(np.int64), budget):
            yield self.of(rows[group])


class _Row(NamedTuple):
    """Sequences as they lie in a row; a shared prefix is the first of them."""

    prefix: int
    first: Index
    """Where each starts among the ids."""
    counts: Index
    """Tokens of each."""
    begin: Index
    """Position of the first token of each."""
    chain: Chain | None = None
    """What each borrows from others, if they do."""

    @property
    def starts(self) -> Index:
        """Where each starts in the row."""
        found: Index = np.cumsum(self.counts) - self.counts
        return found


def laid(
    ids: NDArray[Any], lengths: Index, prompts: Index, *, device: str, mean: bool = True,
    fixed: bool = False, tree: bool = False,
) -> Flat:  # fmt: skip
    """Lay some sequences out on the device; one without a record is only read.

    Args:
        ids: prompts and records, one after another.
        lengths: length of each prompt and record together.
        prompts: length of each prompt.
        device: where tensors go.
        mean: tokens of a record weigh one together, instead of one each.
        fixed: fill the predicted tokens up as well, so that few shapes occur.
        tree: compute beginnings that some of the sequences share once, not only that of all.
    """
    starts, answers = np.cumsum(lengths) - lengths, lengths - prompts
    fed = np.maximum(lengths - 1, prompts)
    if tree:
        row = _borrowing(starts, fed, chain(ids, starts, fed, prompts - 1))
    else:
        row = _row(starts, fed, _common(ids, starts, int(prompts.min()) - 1))
    tokens = ids[within(row.first, row.counts)].astype(np.int64)
    last = row.starts[-len(fed) :] + prompts - row.begin[-len(fed) :] - 1
    record = np.repeat(np.arange(len(fed)), answers)
    targets = ids[within(starts + prompts, answers)].astype(np.int64)
    weights = np.repeat(1.0 / np.maximum(1, answers), answers) if mean else np.ones(len(record))
    cuda = device.startswith("cuda")
    filler = friendly(len(tokens) + 1, 6 if tree else 4) - len(tokens) if cuda else 0
    more = friendly(len(record), 1) - len(record) if fixed else 0
    whole = _filled_row(row, filler)
    longest = max(int(fed.max()), filler)
    return Flat(
        sent(_filled(tokens, filler), device)[None],
        sent(within(whole.begin, whole.counts), device)[None],
        _bounds(whole.counts, device), friendly(max(longest, LONGEST), 0) if cuda else longest,
        sent(_filled(within(last, answers), more), device), sent(_filled(targets, more), device),
        sent(_filled(weights, more).astype(np.float32), device),
        sent(_filled(record, more, len(fed)), device), sent(last, device), int(fed.sum()),
        len(tokens), _keys(whole, len(fed), device),
    )  # fmt: skip


def friendly(size: int, bits: int) -> int:
    """Round a size up so that few different ones occur: to so many bits after the first."""
    step = 1 << max(0, max(1, size).bit_length() - 1 - bits)
    return -(-max(1, size) // step) * step


def _common(ids: NDArray[Any], starts: Index, limit: int) -> int:
    """Return how many first tokens are shared by all sequences and worth it."""
    least, step = SHARED
    if len(starts) < 2 or limit < least or np.ptp(ids[starts + least - 1]):
        return 0
    seen = ids[starts[:, None] + np.arange(limit)]
    same = (seen == seen[0]).all(0)
    shared = limit if same.all() else int(same.argmin())
    return shared // step * step if shared >= least else 0


def _row(starts: Index, fed: Index, prefix: int) -> _Row:
    if not prefix:
        return _Row(0, starts, fed, np.zeros_like(fed))
    return _Row(
        prefix, np.concatenate((starts[:1], starts + prefix)),
        np.concatenate(([prefix], fed - prefix)), np.repeat([0, prefix], [1, len(fed)]),
    )  # fmt: skip


def _filled_row(row: _Row, filler: int) -> _Row:
    """Count the filler as one more sequence."""
    if not filler:
        return row
    return row._replace(counts=np.append(row.counts, filler), begin=np.append(row.begin, 0))


def _borrowing(starts: Index, fed: Index, found: Chain) -> _Row:
    return _Row(0, starts + found.skip, fed - found.skip, found.skip, found)


def _keys(row: _Row, sequences: int, device: str) -> Shared | Tree | None:
    """Say where keys come from, unless every sequence has its own."""
    if row.chain is not None:
        told = grown(row.chain, row.counts)
        return Tree(
            sent(told.keys, device), sent(told.own, device), sent(told.shared, device),
            sent(told.copies, device), sent(told.ends, device),
            sent(told.bounds.astype(np.int32), device),
        )  # fmt: skip
    return _shared(row, sequences, device) if row.prefix else None


def _shared(row: _Row, tails: int, device: str) -> Shared:
    """Put the prefix before the keys of each tail."""
    before = np.zeros_like(row.counts)
    before[1 : tails + 1] = row.prefix
    counts = row.counts + before
    starts = np.cumsum(counts) - counts
    own = within(starts + before, row.counts)
    copies = within(starts[1 : tails + 1], before[1 : tails + 1])
    keys = np.empty(int(counts.sum()), np.int64)
    keys[own] = np.arange(len(own))
    keys[copies] = np.tile(np.arange(row.prefix), tails)
    return Shared(
        sent(keys, device), sent(own, device), sent(copies, device), _bounds(counts, device),
        row.prefix,
    )  # fmt: skip


def _bounds(counts: Index, device: str) -> Tensor:
    return sent(np.concatenate(([0], np.cumsum(counts))).astype(np.int32), device)


def _filled(values: NDArray[Any], more: int, by: int = 0) -> NDArray[Any]:
    return np.concatenate((values, np.full(more, by, values.dtype))) if more else values


def sent(values: NDArray[Any], device: str) -> Tensor:
    """Copy an array to the device without waiting for it."""
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if not device.startswith("cuda") or not tensor.numel():
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
