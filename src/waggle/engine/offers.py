"""Which tokens a batch of choices offers, as one small mask or as lists.

The same sets of tokens are offered over and over (the digits, the actions, yes or no), so each is
looked up once and a batch's mask is put together from whole rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

MAX_SETS = 4096


class Offers:
    """Masks over the tokens that a batch offers."""

    def __init__(self) -> None:
        self._sets: dict[tuple[int, ...], np.ndarray[Any, Any]] = {}

    def mask(self, allowed: Sequence[tuple[int, ...]]) -> tuple[list[int], Tensor]:
        """Return the tokens any choice offers, and for each choice which of them are closed."""
        kinds = {tokens: kind for kind, tokens in enumerate(dict.fromkeys(allowed))}
        arrays = [self._array(tokens) for tokens in kinds]
        offered = np.unique(np.concatenate(arrays))
        closed = np.ones((len(kinds), len(offered)), dtype=bool)
        for kind, tokens in enumerate(arrays):
            closed[kind, np.searchsorted(offered, tokens)] = False
        which = np.fromiter((kinds[tokens] for tokens in allowed), np.int64, len(allowed))
        return offered.tolist(), torch.from_numpy(closed[which])

    def lists(self, allowed: Sequence[tuple[int, ...]]) -> np.ndarray[Any, Any]:
        """Return the tokens of each choice side by side, the first repeated where there are few."""
        kinds = {tokens: kind for kind, tokens in enumerate(dict.fromkeys(allowed))}
        width = max(map(len, kinds))
        rows = np.empty((len(kinds), width), dtype=np.int64)
        for tokens, kind in kinds.items():
            rows[kind] = tokens[0]
            rows[kind, : len(tokens)] = self._array(tokens)
        return rows[np.fromiter((kinds[tokens] for tokens in allowed), np.int64, len(allowed))]

    def _array(self, tokens: tuple[int, ...]) -> np.ndarray[Any, Any]:
        known = self._sets.get(tokens)
        if known is None:
            if len(self._sets) >= MAX_SETS:
                self._sets.clear()
            known = self._sets[tokens] = np.array(tokens, dtype=np.int64)
        return known
