"""The LM head: from states to tokens, without waiting for a device that works by itself.

On a GPU everything is multiplied and the allowed tokens are gathered: one transfer and few
launches. The number of states is rounded up there, so that sizes come again: for a new one a kernel
may have to be found and loaded and memory to be allocated, while the host waits. On a CPU only the
allowed rows of the output matrix are multiplied.
Invariant: a token is -1 where logits are not numbers, never another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.backends.base import TokenFuture
from waggle.engine.cuda.graphs import ChoiceGraphs, bucket, buckets, greedy_among
from waggle.engine.memory import attempted, halved
from waggle.engine.model.decoder import greedy
from waggle.engine.model.kv_cache import index_tensor, pinned_empty
from waggle.engine.model.linear import Linear

MAX_LOGITS = 4096
"""States that pass the output matrix at a time."""
MAX_SETS = 4096
"""Sets of allowed tokens that are remembered as arrays; then all are forgotten."""
NARROW = 8
"""Tokens of the narrowest lists; widths are powers of two, so that few are met."""

Allowed = Sequence[tuple[int, ...]]
"""The tokens allowed to each state."""


class LMHead:
    """Asks the output matrix for tokens; `relieve` gives memory back where logits do not fit."""

    def __init__(
        self,
        head: Linear,
        relieve: Callable[[], None],
        graphs: ChoiceGraphs | None = None,
    ) -> None:
        self._head = head
        self._device = head.weight.device
        self._relieve = relieve
        self._sets: dict[tuple[int, ...], np.ndarray[Any, Any]] = {}
        self.graphs = graphs
        self.rounds = self._device.type == "cuda"
        """Whether the number of states is rounded up."""

    def prime(self, most: int) -> None:
        """Meet every size of up to this many states once."""
        if self.rounds:
            for count in buckets(1, min(most, MAX_LOGITS)):
                states = self._head.weight.new_zeros((count, self._head.weight.shape[1]))
                self.argmax(states, ())
                self.choose_from_all(states, [(0, 1)] * count)
        if self.graphs is not None:
            self.graphs.prime(most)

    def clear(self) -> None:
        """Drop captured choices."""
        if self.graphs is not None:
            self.graphs.clear()

    def argmax(self, hidden: Tensor, banned: Sequence[int]) -> TokenFuture:
        """Ask for the most likely next token of each state, banned tokens aside."""

        def best(states: Tensor) -> Tensor:
            logits = self._head(states)
            for token in banned:
                logits[:, token] = float("-inf")
            return greedy(logits)

        states = self._rounded(hidden)
        found = self._in_parts(lambda rows: best(states[rows]), len(states))
        return _fetched(found[: len(hidden)])

    def choose_from_all(self, hidden: Tensor, allowed: Allowed) -> TokenFuture:
        """Ask for each state's most likely allowed token, by all logits."""
        rows = bucket(len(hidden)) if self.rounds else len(hidden)
        lists = allowed_lists(allowed, rows, self._device)
        found = self._replayed(hidden, lists)
        if found is None:
            given = lists.to(self._device, non_blocking=True)
            states = self._rounded(hidden)
            found = self._in_parts(
                lambda rows: greedy_among(self._head(states[rows]), given[rows]), rows
            )
        return _fetched(found[: len(hidden)])

    def choose_from_few(self, hidden: Tensor, allowed: Allowed) -> TokenFuture:
        """Ask for each state's most likely allowed token, by the logits of allowed ones alone."""
        tokens, closed = self._mask(allowed)
        weight = self._head.weight[index_tensor(tokens, self._device)]
        logits = F.linear(hidden, weight).masked_fill(closed, float("-inf"))
        best: list[int] = logits.argmax(-1).tolist()
        return lambda: [tokens[index] for index in best]

    def _rounded(self, values: Tensor) -> Tensor:
        """Add rows that are never read, up to a size that comes again."""
        more = bucket(len(values)) - len(values) if self.rounds else 0
        return F.pad(values, (0, 0, 0, more)) if more else values

    def _in_parts(self, work: Callable[[slice], Tensor], count: int) -> Tensor:
        """Do work on so many states, as many at a time as their logits fit."""
        rows = range(count)
        spans = [rows[first : first + MAX_LOGITS] for first in rows[::MAX_LOGITS]]
        found = [halved(work, span, self._relieve) for span in spans]
        return found[0] if len(found) == 1 else torch.cat(found)

    def _replayed(self, hidden: Tensor, lists: Tensor) -> Tensor | None:
        """Choose by a captured graph; None where there is none, or no memory for it."""
        graphs = self.graphs
        if graphs is None:
            return None
        return attempted(lambda: graphs.run(hidden, lists), self._relieve)

    def _mask(self, allowed: Allowed) -> tuple[list[int], Tensor]:
        """Return the tokens that any state may take, and for each state which of them it may not.

        The same few sets come over and over (the digits, the actions, yes or no), mostly as the
        very same tuple, so they are told apart by identity and looked at once.
        """
        keys = [id(tokens) for tokens in allowed]
        sets = dict(zip(keys, allowed, strict=True))
        arrays = [self._array(tokens) for tokens in sets.values()]
        union = np.unique(np.concatenate(arrays))
        closed = np.ones((len(sets), len(union)), dtype=bool)
        for kind, tokens in enumerate(arrays):
            closed[kind, np.searchsorted(union, tokens)] = False
        kinds = {key: kind for kind, key in enumerate(sets)}
        which = np.array([kinds[key] for key in keys], dtype=np.int64)
        return union.tolist(), torch.from_numpy(closed[which])

    def _array(self, tokens: tuple[int, ...]) -> np.ndarray[Any, Any]:
        known = self._sets.get(tokens)
        if known is None:
            if len(self._sets) >= MAX_SETS:
                self._sets.clear()
            known = self._sets[tokens] = np.array(tokens, dtype=np.int64)
        return known


def allowed_lists(allowed: Allowed, rows: int, device: torch.device) -> Tensor:
    """Return the tokens of each state side by side, in pinned memory where the device is a GPU.

    The first one is repeated where there are few; behind all come rows of zeros, up to so many.
    """
    sizes = np.fromiter(map(len, allowed), np.int64, len(allowed))
    flat = np.fromiter(chain.from_iterable(allowed), np.int64, int(sizes.sum()))
    width = max(NARROW, 1 << (int(sizes.max()) - 1).bit_length())
    found = pinned_empty(rows * width, device).view(rows, width)
    values = found.numpy()
    values[len(allowed) :] = 0
    lists = values[: len(allowed)]
    lists[:] = flat[sizes.cumsum() - sizes, None]
    lists[np.arange(width) < sizes[:, None]] = flat
    return found


def _fetched(tokens: Tensor) -> TokenFuture:
    """Begin to fetch tokens; later work on the device is not waited for."""
    if tokens.device.type != "cuda":
        found: list[int] = tokens.tolist()
        return lambda: found
    kept = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
    kept.copy_(tokens, non_blocking=True)
    arrived: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()

    def wait() -> list[int]:
        arrived.synchronize()
        return kept.tolist()

    return wait
