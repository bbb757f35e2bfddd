"""Choices among offered tokens as CUDA graphs: the output layer of rows that follow grammars.

It is a dozen short kernels, and every pass of such rows ends with them. Sizes are rounded up, so
that few are met: states that nobody reads, and offers that repeat their first token. Each size that
comes up often is captured once over buffers of its own and replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from waggle.engine.cuda.graphs import Recorder, Step, buckets
from waggle.engine.cuda.greedy_loop import likeliest
from waggle.engine.cuda.shelf import Shelf
from waggle.engine.model.linear import Linear

MOST = 1024
"""States of the largest choice that is recorded: beyond it launches matter little."""
WIDE = 64
"""Tokens of the widest one; more are offered seldom."""
USUAL = (8, 16)
"""Tokens that are offered often."""


def picked(logits: Tensor, offered: Tensor) -> Tensor:
    """Return each state's most likely token among those offered to it, -1 where none is."""
    best = likeliest(logits.gather(1, offered)).unsqueeze(1)
    said = offered.gather(1, best.clamp_min(0))
    return torch.where(best < 0, best, said).squeeze(1)


@dataclass(slots=True)
class _Graph:
    replay: Step
    states: Tensor
    offered: Tensor


class ChoiceGraphs:
    """Captured choices, by number of states and of tokens that each is offered."""

    def __init__(self, head: Linear, capture: Callable[[Step], Step] | None = None) -> None:
        """Hold choices by a head; `capture` turns a step into its replay (a test's seam)."""
        self._head = head
        self._graphs: Shelf[tuple[int, int], _Graph] = Shelf()
        self._record = capture or Recorder()

    def clear(self) -> None:
        """Drop every graph."""
        self._graphs.clear()

    def run(self, hidden: Tensor, offered: Tensor) -> Tensor | None:
        """Replay a choice; return a token for each list of offers, of which some have no state.

        They stay until the next choice is run. None where its size is not recorded.
        """
        size = offered.shape[0], offered.shape[1]
        if size[0] > MOST or size[1] > WIDE or not self._graphs.has(size):
            return None
        graph = self._graphs.take(size, lambda: self._capture(*size))
        graph.states[: len(hidden)].copy_(hidden)
        graph.offered.copy_(offered, non_blocking=True)
        return graph.replay()

    def prime(self, most: int) -> None:
        """Capture usual choices of up to this many states now."""
        for rows in buckets(1, min(most, MOST)):
            for width in USUAL:
                if (rows, width) not in self._graphs:
                    self._graphs[rows, width] = self._capture(rows, width)

    def _capture(self, rows: int, width: int) -> _Graph:
        weight = self._head.weight
        states = weight.new_zeros((rows, weight.shape[1]))
        offered = torch.zeros((rows, width), dtype=torch.long, device=weight.device)
        return _Graph(self._record(lambda: picked(self._head(states), offered)), states, offered)
