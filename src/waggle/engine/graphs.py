"""CUDA graphs for decoding steps.

A step of a small model is dozens of short kernels per layer, and launching them costs more than
running them. Each shape (rows, tokens per row, cache span, prefix) is captured once over static
buffers and replayed. Padding tokens write past the row's end and idle rows write to their own
start: both are overwritten before anything reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from waggle.engine.attention import visibility
from waggle.engine.decoder import Chunk, Decoder, PrefixKV

MAX_STEPS = 32
"""Longest chunk a graph holds; longer ones run packed and eager."""
MAX_TOKENS = 4096
"""Largest padded batch a graph holds; beyond it launches no longer matter."""
MAX_WORK = 2e12
"""Padded tokens times weights a graph may cost; beyond it, packing saves more than launching."""
SPAN = 128
"""Granularity of the cache span."""


Step = Callable[[], Tensor]


@dataclass(slots=True)
class _Graph:
    replay: Step
    tokens: Tensor
    positions: Tensor
    reads: tuple[Any, ...]
    """What the recorded kernels read by address: it must live as long as the graph."""


def _power(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()


class StepGraphs:
    """Captured steps, by shape."""

    def __init__(self, decoder: Decoder, capture: Callable[[Step], Step] | None = None) -> None:
        """Hold graphs of a decoder; `capture` turns a step into its replay (a test's seam)."""
        self._decoder = decoder
        self._weights = decoder.parameters()
        self._graphs: dict[tuple[int, int, int, int], _Graph] = {}
        self._record = capture or Recorder()

    def clear(self) -> None:
        """Drop every graph (the cache they point into is gone)."""
        self._graphs.clear()

    def forget(self, prefix: PrefixKV) -> None:
        """Drop the graphs of an evicted prefix."""
        for key in [key for key in self._graphs if key[3] == id(prefix)]:
            del self._graphs[key]

    def fits(
        self, slots: Sequence[int], chunks: Sequence[Sequence[int]], starts: Sequence[int]
    ) -> bool:
        """Whether a batch is a small step of rows under way."""
        steps = max(map(len, chunks))
        rows = _power(max(slots) + 1)
        tokens = rows * _power(steps)
        small = steps <= MAX_STEPS and tokens <= MAX_TOKENS and tokens * self._weights <= MAX_WORK
        return small and all(start > 0 for start in starts)

    def run(
        self,
        slots: Sequence[int],
        chunks: Sequence[Sequence[int]],
        starts: Sequence[int],
        wanted: Sequence[int],
        prefix: PrefixKV,
        cache: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Replay the step and return the hidden states of the last `wanted` tokens of each row."""
        rows = min(_power(max(slots) + 1), cache[0][0].shape[0])
        steps = _power(max(map(len, chunks)))
        capacity = cache[0][0].shape[2]
        span = min(-(-(max(starts) + steps) // SPAN) * SPAN, capacity)
        key = (rows, steps, span, id(prefix))
        if key not in self._graphs:
            self._graphs[key] = self._capture(rows, steps, span, prefix, cache)
        graph = self._graphs[key]
        tokens = [[0] * steps for _ in range(rows)]
        first = [0] * rows
        keep: list[int] = []
        for slot, chunk, start, count in zip(slots, chunks, starts, wanted, strict=True):
            tokens[slot][: len(chunk)] = chunk
            first[slot] = min(start, capacity - steps)
            keep.extend(range(slot * steps + len(chunk) - count, slot * steps + len(chunk)))
        self._fill(graph, tokens, first, steps)
        return graph.replay()[torch.tensor(keep, device=self._decoder.device)]

    def _fill(self, graph: _Graph, tokens: list[list[int]], first: list[int], steps: int) -> None:
        """Copy one step's inputs into the static buffers with a single transfer."""
        host = torch.tensor([[*row, start] for row, start in zip(tokens, first, strict=True)])
        sent = host.to(self._decoder.device)
        graph.tokens.copy_(sent[:, :steps].reshape(-1))
        ahead = torch.arange(steps, device=sent.device)
        graph.positions.copy_((sent[:, steps:] + ahead).reshape(-1))

    def _capture(
        self,
        rows: int,
        steps: int,
        span: int,
        prefix: PrefixKV,
        cache: list[tuple[Tensor, Tensor]],
    ) -> _Graph:
        device = self._decoder.device
        capacity = cache[0][0].shape[2]
        self._decoder.reserve(prefix.length + capacity)
        count = rows * steps
        tokens = torch.zeros(count, dtype=torch.long, device=device)
        # Warm-up passes write: position span - 1 of idle rows would be visible, so use the slack.
        positions = torch.full((count,), capacity - 1, device=device)
        chunk = Chunk(
            tokens=tokens,
            slots=torch.arange(rows, device=device).repeat_interleave(steps),
            positions=positions,
            rows=rows,
            steps=steps,
            grid=None,
            fresh=False,
            span=span,
        )

        def step() -> Tensor:
            groups = self._decoder.shape.groups
            grid = positions.view(rows, steps)
            chunk.mask = visibility(grid, span, groups, self._decoder.dtype)
            return self._decoder.forward(chunk, cache, prefix)

        reads = (chunk, prefix, self._decoder.tables)
        return _Graph(self._record(step), tokens, positions, reads)


class Recorder:
    """Records steps as CUDA graphs in one memory pool."""

    def __init__(self) -> None:
        self._anchor: Any = None

    def _pool(self) -> Any:
        """Return the shared pool; a graph that is never dropped keeps it open."""
        if self._anchor is None:
            self._anchor = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._anchor):
                torch.zeros(1, device="cuda")
        return self._anchor.pool()

    def __call__(self, step: Step) -> Step:
        """Run a step once to warm up, record it, and return its replay."""
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool()):
            hidden = step()

        def replay() -> Tensor:
            graph.replay()
            return hidden

        return replay
