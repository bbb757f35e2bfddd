"""Which tokens a batch of choices offers, as one small mask or as lists.

The same sets of tokens are offered over and over (the digits, the actions, yes or no), mostly as
the very same tuple, so a mask tells them apart by identity and looks at each of them once. Lists,
which a GPU takes, come from several processes as tuples of their own: all are laid out in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
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
        sets, which = _kinds(allowed)
        arrays = [self._array(tokens) for tokens in sets]
        offered = np.unique(np.concatenate(arrays))
        closed = np.ones((len(sets), len(offered)), dtype=bool)
        for kind, tokens in enumerate(arrays):
            closed[kind, np.searchsorted(offered, tokens)] = False
        return offered.tolist(), torch.from_numpy(closed[which])

    def lists(self, allowed: Sequence[tuple[int, ...]], rows: int) -> np.ndarray[Any, Any]:
        """Return the tokens of each choice side by side, the first repeated where there are few.

        Behind them come rows of nothing, up to so many.
        """
        sizes = np.fromiter(map(len, allowed), np.int64, len(allowed))
        flat = np.fromiter(chain.from_iterable(allowed), np.int64, int(sizes.sum()))
        width = int(sizes.max())
        found = np.zeros((rows, width), dtype=np.int64)
        told = found[: len(allowed)]
        told[:] = flat[sizes.cumsum() - sizes, None]
        told[np.arange(width) < sizes[:, None]] = flat
        return found

    def _array(self, tokens: tuple[int, ...]) -> np.ndarray[Any, Any]:
        known = self._sets.get(tokens)
        if known is None:
            if len(self._sets) >= MAX_SETS:
                self._sets.clear()
            known = self._sets[tokens] = np.array(tokens, dtype=np.int64)
        return known


def _kinds(
    allowed: Sequence[tuple[int, ...]],
) -> tuple[list[tuple[int, ...]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the sets that are offered, and which of them each choice offers."""
    keys = [id(tokens) for tokens in allowed]
    sets = dict(zip(keys, allowed, strict=True))
    kinds = {key: kind for kind, key in enumerate(sets)}
    return list(sets.values()), np.array([kinds[key] for key in keys], dtype=np.int64)
