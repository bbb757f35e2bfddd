"""The output layer: from states to tokens, without waiting for a device that works by itself.

On a GPU the number of states is rounded up, so that sizes come again: for a new one a kernel may
have to be found and loaded and memory to be asked for, while the host waits.
Invariant: a token is -1 where logits are no numbers, never another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.backends.base import Said
from waggle.engine.backends.offers import Offers, lists
from waggle.engine.cuda.choice_graphs import ChoiceGraphs, picked
from waggle.engine.cuda.graphs import bucket, buckets
from waggle.engine.cuda.greedy_loop import likeliest
from waggle.engine.model.kv_cache import indices
from waggle.engine.model.linear import Linear
from waggle.engine.shortage import attempted, halved

MOST_LOGITS = 4096
"""States that pass the output layer at a time: expected answers ask everywhere."""


class Output:
    """Asks a head for tokens; `relieve` gives memory back where logits do not fit."""

    def __init__(
        self,
        head: Linear,
        relieve: Callable[[], None],
        graphs: ChoiceGraphs | None = None,
    ) -> None:
        self._head = head
        self._device = head.weight.device
        self._relieve = relieve
        self._offers = Offers()
        self.graphs = graphs
        self.rounds = self._device.type == "cuda"
        """Whether the number of states is rounded up."""

    def prime(self, most: int) -> None:
        """Meet every size of up to this many states once."""
        if self.rounds:
            for count in buckets(1, min(most, MOST_LOGITS)):
                states = self._head.weight.new_zeros((count, self._head.weight.shape[1]))
                self.argmax(states, ())
                self.among(states, [(0, 1)] * count)
        if self.graphs is not None:
            self.graphs.prime(most)

    def clear(self) -> None:
        """Drop recorded choices."""
        if self.graphs is not None:
            self.graphs.clear()

    def argmax(self, hidden: Tensor, banned: Sequence[int]) -> Said:
        """Ask for the most likely next token of each state, banned tokens aside."""
        states = self._rounded(hidden)
        said = self._parted(lambda rows: self._likeliest(states[rows], banned), len(states))
        return _later(said[: len(hidden)])

    def _rounded(self, values: Tensor) -> Tensor:
        """Add rows that nobody reads, up to a size that comes again."""
        more = bucket(len(values)) - len(values) if self.rounds else 0
        return F.pad(values, (0, 0, 0, more)) if more else values

    def _parted(self, work: Callable[[slice], Tensor], count: int) -> Tensor:
        """Do work on so many states, as many at a time as their logits fit."""
        rows = range(count)
        spans = [rows[first : first + MOST_LOGITS] for first in rows[::MOST_LOGITS]]
        found = [halved(work, span, self._relieve) for span in spans]
        return found[0] if len(found) == 1 else torch.cat(found)

    def _likeliest(self, hidden: Tensor, banned: Sequence[int]) -> Tensor:
        logits = self._head(hidden)
        for token in banned:
            logits[:, token] = float("-inf")
        return likeliest(logits)

    def among(self, hidden: Tensor, allowed: Sequence[tuple[int, ...]]) -> Said:
        """Multiply everything and look at what is offered: one transfer and few launches."""
        rows = bucket(len(hidden)) if self.rounds else len(hidden)
        offered = lists(allowed, rows, self._device)
        said = self._replay(hidden, offered)
        if said is None:
            given = offered.to(self._device, non_blocking=True)
            states = self._rounded(hidden)
            said = self._parted(lambda rows: picked(self._head(states[rows]), given[rows]), rows)
        return _later(said[: len(hidden)])

    def _replay(self, hidden: Tensor, offered: Tensor) -> Tensor | None:
        """Choose as it was recorded; None where it was not, or there is no room to do so."""
        graphs = self.graphs
        if graphs is None:
            return None
        return attempted(lambda: graphs.run(hidden, offered), self._relieve)

    def few(self, hidden: Tensor, allowed: Sequence[tuple[int, ...]]) -> Said:
        """Multiply only the offered rows of the output matrix."""
        offered, closed = self._offers.mask(allowed)
        weight = self._head.weight[indices(offered, self._device)]
        logits = F.linear(hidden, weight).masked_fill(closed, float("-inf"))
        best: list[int] = logits.argmax(-1).tolist()
        return lambda: [offered[index] for index in best]


def _later(tokens: Tensor) -> Said:
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
