"""Flat batches of a token corpus: cut out of arrays without a Python loop, and copied ahead.

Invariant: losses cover assistant tokens only, each record weighs the same, and which records an
update uses is a function of (seed, update).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from waggle.core.seeds import derive
from waggle.corpus.store import CorpusError
from waggle.scd.flat import Flat
from waggle.scd.rows import within
from waggle.scd.speller import Tokens

ROUND = 512
"""On CUDA the row is filled up to a multiple of this, so that shapes are friendly and repeat."""


class Flats:
    """Makes flat batches of a token corpus."""

    def __init__(self, tokens: Tokens, seed: int, batch: int, *, mean: bool, device: str) -> None:
        if not len(tokens):
            raise CorpusError("no records to train on; raise `native` in [harvest]")
        self._tokens, self._starts = tokens, tokens.starts()
        self._seed, self._size, self._mean, self._device = seed, batch, mean, device
        self._orders: dict[int, NDArray[np.int64]] = {}

    def batch(self, update: int) -> Flat:
        """Return the records of an update."""
        return self.of(self.chosen(update))

    def chosen(self, update: int) -> NDArray[np.int64]:
        """Return which records an update uses: whole passes in an order drawn per pass."""
        count, first, last = len(self._tokens), update * self._size, (update + 1) * self._size
        epochs = range(first // count, (last - 1) // count + 1)
        parts = [self._order(e)[max(0, first - e * count) : last - e * count] for e in epochs]
        return np.concatenate(parts)

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if epoch not in self._orders:
            seed = derive(self._seed, "pass order", "tokens", epoch)
            drawn = np.random.Generator(np.random.PCG64(seed)).permutation(len(self._tokens))
            self._orders = {epoch: drawn, **dict(list(self._orders.items())[:1])}
        return self._orders[epoch]

    def of(self, rows: NDArray[np.int64]) -> Flat:
        """Lay some records end to end; the last token of a record is only ever predicted."""
        lengths = self._tokens.lengths[rows].astype(np.int64)
        prompts = self._tokens.prompts[rows].astype(np.int64)
        ids = self._tokens.ids[within(self._starts[rows], lengths)]
        return Flat(**laid(ids, lengths, prompts, device=self._device, mean=self._mean))


def laid(
    ids: NDArray[Any], lengths: NDArray[np.int64], prompts: NDArray[np.int64], *, device: str,
    mean: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Return what makes a `Flat` of some sequences; one without a record is only read."""
    answers, fed = lengths - prompts, np.maximum(lengths - 1, prompts)
    starts = np.cumsum(lengths) - lengths
    bounds = np.concatenate(([0], np.cumsum(fed)))
    positions = within(np.zeros_like(fed), fed)
    tokens = ids[within(starts, fed)].astype(np.int64)
    where = within(bounds[:-1] + prompts - 1, answers)
    targets = ids[within(starts + prompts, answers)].astype(np.int64)
    weights = np.repeat(1.0 / np.maximum(1, answers), answers) if mean else np.ones(len(where))
    filler = -len(tokens) % ROUND if device.startswith("cuda") else 0
    if filler:
        tokens = np.concatenate((tokens, np.zeros(filler, np.int64)))
        positions = np.concatenate((positions, np.arange(filler)))
        bounds = np.concatenate((bounds, [len(tokens)]))
    return {
        "tokens": sent(tokens, device)[None], "positions": sent(positions, device)[None],
        "bounds": sent(bounds.astype(np.int32), device), "longest": max(int(fed.max()), filler),
        "where": sent(where, device), "targets": sent(targets, device),
        "weights": sent(weights.astype(np.float32), device), "records": len(lengths),
    }  # fmt: skip


def sent(values: NDArray[Any], device: str) -> Tensor:
    """Copy an array to the device without waiting for it."""
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if not device.startswith("cuda") or not tensor.numel():
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
