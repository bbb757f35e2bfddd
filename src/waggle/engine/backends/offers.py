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

from waggle.engine.model.kv_cache import blank

MAX_SETS = 4096
NARROW = 8
"""Tokens of the narrowest lists; widths are powers of two, so that few are met."""


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

    def _array(self, tokens: tuple[int, ...]) -> np.ndarray[Any, Any]:
        known = self._sets.get(tokens)
        if known is None:
            if len(self._sets) >= MAX_SETS:
                self._sets.clear()
            known = self._sets[tokens] = np.array(tokens, dtype=np.int64)
        return known


def lists(allowed: Sequence[tuple[int, ...]], rows: int, device: torch.device) -> Tensor:
    """Return the tokens of each choice side by side, where a device can fetch them by itself.

    The first is repeated where there are few; behind all come rows of nothing, up to so many.
    """
    sizes = np.fromiter(map(len, allowed), np.int64, len(allowed))
    flat = np.fromiter(chain.from_iterable(allowed), np.int64, int(sizes.sum()))
    width = max(NARROW, 1 << (int(sizes.max()) - 1).bit_length())
    found = blank(rows * width, device).view(rows, width)
    told = found.numpy()
    told[len(allowed) :] = 0
    told = told[: len(allowed)]
    told[:] = flat[sizes.cumsum() - sizes, None]
    told[np.arange(width) < sizes[:, None]] = flat
    return found


def _kinds(
    allowed: Sequence[tuple[int, ...]],
) -> tuple[list[tuple[int, ...]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the sets that are offered, and which of them each choice offers."""
    keys = [id(tokens) for tokens in allowed]
    sets = dict(zip(keys, allowed, strict=True))
    kinds = {key: kind for kind, key in enumerate(sets)}
    return list(sets.values()), np.array([kinds[key] for key in keys], dtype=np.int64)
