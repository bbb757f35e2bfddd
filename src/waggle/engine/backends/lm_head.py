"""The LM head: from states to tokens, without waiting for an asynchronous device.

On a GPU all logits are computed and those of the allowed tokens gathered: one transfer and few
launches. The number of states is rounded up there, so that sizes recur: for a new size a kernel may
have to be selected and loaded and memory allocated, while the host waits. On a CPU only the allowed
rows of the output matrix are multiplied.
Invariant: a token is -1 where logits are not numbers, never another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.backends.base import DrawFuture, TokenFuture
from waggle.engine.cuda.graphs import ChoiceGraphs, Choose, bucket, greedy_among
from waggle.engine.memory import attempted, halved
from waggle.engine.model.decoder import greedy
from waggle.engine.model.kv_cache import index_tensor, pinned_empty
from waggle.engine.model.linear import Linear
from waggle.engine.sampling import OWN, draw, draw_among, read_draws

MAX_LOGITS = 4096
"""The most states multiplied with the output matrix in one product."""
MAX_SETS = 4096
"""The number of sets of allowed tokens cached as arrays; a full cache is cleared."""
NARROW = 8
"""The narrowest lists, in tokens; widths are powers of two, so that few different ones occur."""

Allowed = Sequence[tuple[int, ...]]
"""The tokens allowed to each state."""
Found = TypeVar("Found")


class LMHead:
    """The output matrix and token selection; `relieve` frees memory when logits do not fit."""

    def __init__(
        self,
        head: Linear,
        relieve: Callable[[], None],
        graphs: ChoiceGraphs | None = None,
        draws: ChoiceGraphs | None = None,
    ) -> None:
        self._head = head
        self._device = head.weight.device
        self._relieve = relieve
        self._sets: dict[tuple[int, ...], np.ndarray[Any, Any]] = {}
        self.graphs = graphs
        self.draws = draws
        """Captured choices by sampling."""
        self._every = torch.arange(len(head.weight), device=self._device).unsqueeze(0)
        self.rounds = self._device.type == "cuda"
        """Whether the number of states is rounded up."""

    def clear(self) -> None:
        """Drop captured choices."""
        for captured in (self.graphs, self.draws):
            if captured is not None:
                captured.clear()

    def argmax(self, hidden: Tensor, banned: Sequence[int]) -> TokenFuture:
        """Request the most likely next token of each state, excluding banned tokens."""
        states = self._rounded(hidden)
        found = self._in_parts(lambda rows: greedy(self._logits(states[rows], banned)), len(states))
        return _fetched(found[: len(hidden)], Tensor.tolist)

    def sample(self, hidden: Tensor, own: Tensor, banned: Sequence[int]) -> DrawFuture:
        """Draw a token for each state by its own columns, excluding banned tokens."""
        states = self._rounded(hidden)
        given = pinned_empty(len(states) * OWN, self._device).view(-1, OWN)
        given[: len(own)] = own
        given = given.to(self._device, non_blocking=True)
        found = self._in_parts(
            lambda rows: draw(self._logits(states[rows], banned), self._every, given[rows]),
            len(states),
        )
        return _fetched(found[: len(hidden)], read_draws)

    def _logits(self, states: Tensor, banned: Sequence[int]) -> Tensor:
        logits = self._head(states)
        for token in banned:
            logits[:, token] = float("-inf")
        return logits

    def choose_from_all(self, hidden: Tensor, allowed: Allowed) -> TokenFuture:
        """Request each state's most likely allowed token, computing all logits."""
        lists = allowed_lists(allowed, self._rows(hidden), self._device)
        return _fetched(self._among(hidden, lists, greedy_among, self.graphs), Tensor.tolist)

    def sample_from_all(self, hidden: Tensor, own: Tensor, allowed: Allowed) -> DrawFuture:
        """Draw an allowed token for each state by its own columns, computing all logits."""
        lists = allowed_lists(allowed, self._rows(hidden), self._device, own)
        return _fetched(self._among(hidden, lists, draw_among, self.draws), read_draws)

    def _among(
        self, hidden: Tensor, lists: Tensor, choose: Choose, graphs: ChoiceGraphs | None
    ) -> Tensor:
        """Choose by all logits and lists of allowed tokens, in a captured graph if available."""
        found = self._replayed(hidden, lists, graphs)
        if found is None:
            given = lists.to(self._device, non_blocking=True)
            states = self._rounded(hidden)
            found = self._in_parts(
                lambda rows: choose(self._head(states[rows]), given[rows]), len(lists)
            )
        return found[: len(hidden)]

    def choose_from_few(self, hidden: Tensor, allowed: Allowed) -> TokenFuture:
        """Request each state's most likely allowed token, computing only the allowed logits."""
        tokens, logits, closed = self._few(hidden, allowed)
        best: list[int] = greedy(logits.masked_fill(closed, float("-inf"))).tolist()
        return lambda: [tokens[index] if index >= 0 else index for index in best]

    def sample_from_few(self, hidden: Tensor, own: Tensor, allowed: Allowed) -> DrawFuture:
        """Draw an allowed token for each state, computing only the allowed logits."""
        tokens, logits, closed = self._few(hidden, allowed)
        found = read_draws(draw(logits, torch.tensor(tokens).unsqueeze(0), own, closed))
        return lambda: found

    def _few(self, hidden: Tensor, allowed: Allowed) -> tuple[list[int], Tensor, Tensor]:
        """Return the tokens that any state may take, their logits, and a mask of closed ones."""
        tokens, closed = self._mask(allowed)
        weight = self._head.weight[index_tensor(tokens, self._device)]
        return tokens, F.linear(hidden, weight), closed

    def _rows(self, values: Tensor) -> int:
        """Return the number of states, rounded up to a recurring size."""
        return bucket(len(values)) if self.rounds else len(values)

    def _rounded(self, values: Tensor) -> Tensor:
        """Pad with rows that are never read, up to a recurring size."""
        more = self._rows(values) - len(values)
        return F.pad(values, (0, 0, 0, more)) if more else values

    def _in_parts(self, work: Callable[[slice], Tensor], count: int) -> Tensor:
        """Do work on `count` states, in parts whose logits fit in memory."""
        rows = range(count)
        spans = [rows[first : first + MAX_LOGITS] for first in rows[::MAX_LOGITS]]
        found = [halved(work, span, self._relieve) for span in spans]
        return found[0] if len(found) == 1 else torch.cat(found)

    def _replayed(
        self, hidden: Tensor, lists: Tensor, graphs: ChoiceGraphs | None
    ) -> Tensor | None:
        """Choose by a captured graph; return None without a graph or memory for it."""
        if graphs is None:
            return None
        return attempted(lambda: graphs.run(hidden, lists), self._relieve)

    def _mask(self, allowed: Allowed) -> tuple[list[int], Tensor]:
        """Return the tokens that any state may take, and for each state which of them it may not.

        The same few sets recur (the digits, the actions, yes or no), mostly as the same tuple
        object, so they are distinguished by identity and processed once.
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


def allowed_lists(
    allowed: Allowed, rows: int, device: torch.device, own: Tensor | None = None
) -> Tensor:
    """Return the allowed tokens of each state as a row, in pinned memory if the device is a GPU.

    Short rows repeat their first token; rows of zeros follow, up to `rows` rows. The state's own
    columns, if given, precede its tokens.
    """
    sizes = np.fromiter(map(len, allowed), np.int64, len(allowed))
    flat = np.fromiter(chain.from_iterable(allowed), np.int64, int(sizes.sum()))
    width = max(NARROW, 1 << (int(sizes.max()) - 1).bit_length())
    front = 0 if own is None else own.shape[1]
    found = pinned_empty(rows * (front + width), device).view(rows, front + width)
    values = found.numpy()
    values[len(allowed) :] = 0
    if own is not None:
        values[: len(allowed), :front] = own.numpy()
    lists = values[: len(allowed), front:]
    lists[:] = flat[sizes.cumsum() - sizes, None]
    lists[np.arange(width) < sizes[:, None]] = flat
    return found


def _fetched(found: Tensor, read: Callable[[Tensor], Found]) -> Callable[[], Found]:
    """Start copying a result to the host and read it later, without waiting for other work."""
    if found.device.type != "cuda":
        known = read(found)
        return lambda: known
    kept = torch.empty(found.shape, dtype=found.dtype, pin_memory=True)
    kept.copy_(found, non_blocking=True)
    arrived: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()

    def wait() -> Found:
        arrived.synchronize()
        return read(kept)

    return wait
