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
        starts, prompts = self._starts[rows], self._tokens.prompts[rows].astype(np.int64)
        lengths = self._tokens.lengths[rows].astype(np.int64)
        answers, fed = lengths - prompts, lengths - 1
        bounds = np.concatenate(([0], np.cumsum(fed)))
        positions = np.arange(bounds[-1]) - np.repeat(bounds[:-1], fed)
        ids = self._tokens.ids[np.repeat(starts, fed) + positions]
        ends = np.cumsum(answers)
        step = np.arange(ends[-1]) - np.repeat(ends - answers, answers)
        where = np.repeat(bounds[:-1] + prompts - 1, answers) + step
        targets = self._tokens.ids[np.repeat(starts + prompts, answers) + step]
        weights = np.repeat(1.0 / answers, answers) if self._mean else np.ones(len(where))
        filler = -len(ids) % ROUND if self._device.startswith("cuda") else 0
        if filler:
            ids = np.concatenate((ids, np.zeros(filler, np.uint16)))
            positions = np.concatenate((positions, np.arange(filler)))
            bounds = np.concatenate((bounds, [len(ids)]))
        longest = max(int(fed.max()), filler)
        return Flat(
            self._sent(ids.astype(np.int64))[None], self._sent(positions)[None],
            self._sent(bounds.astype(np.int32)), longest, self._sent(where),
            self._sent(targets.astype(np.int64)), self._sent(weights.astype(np.float32)), len(rows),
        )  # fmt: skip

    def _sent(self, values: NDArray[Any]) -> Tensor:
        """Copy an array to the device without waiting for it."""
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        if not self._device.startswith("cuda"):
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)
