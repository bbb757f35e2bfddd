"""CUDA graphs for decoding steps.

A step of a small model is a dozen short kernels per layer, and launching them costs more than
running them. Rows are ragged on the device and idle ones cost nothing, so a step's shape is one
number, its tokens rounded up; steps of one token per row are told apart, since the kernel folds
their heads. Each shape is captured once over static buffers and replayed. Padding tokens belong to
scratch rows that nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from waggle.engine.decoder import Decoder
from waggle.engine.row_store import Layout, RowStore
from waggle.engine.stores import Piece, PrefixKV, lying, sent

LONGEST = 128
"""Longest chunk of one row in a graph; longer ones run eagerly."""
MAX_TOKENS = 8192
"""Largest step a graph holds; beyond it launches no longer matter."""
OFTEN = 3
"""A shape is recorded when it comes up for this time; recording takes as long as many steps."""
MAX_WORK = 2e12
"""Tokens times weights a graph may cost; beyond it, launches no longer matter either."""

Step = Callable[[], Tensor]


class Size(NamedTuple):
    """The shape of a step: its tokens, rounded up, and whether every row has a single one."""

    tokens: int
    single: bool


@dataclass(slots=True)
class _Graph:
    replay: Step
    inbox: Tensor
    reads: tuple[Any, ...]
    """What the recorded kernels read by address: it must live as long as the graph."""


def bucket(value: int) -> int:
    """Round a size up to a power of two or one and a half times one."""
    power = 1 << max(4, (value - 1).bit_length())
    return power * 3 // 4 if value <= power * 3 // 4 else power


class StepGraphs:
    """Captured steps, by shape."""

    def __init__(
        self,
        decoder: Decoder,
        store: RowStore,
        capture: Callable[[Step], Step] | None = None,
    ) -> None:
        """Hold graphs of a decoder; `capture` turns a step into its replay (a test's seam)."""
        self._decoder = decoder
        self._store = store
        self._weights = decoder.parameters()
        self._graphs: dict[Size, _Graph] = {}
        self._met: dict[Size, int] = {}
        self._record = capture or Recorder()

    def clear(self) -> None:
        """Drop every graph (the caches they point into are gone)."""
        self._graphs.clear()

    def fits(self, pieces: Sequence[Piece]) -> bool:
        """Whether a batch is a small step of rows under way."""
        sizes = [len(piece.tokens) for piece in pieces]
        tokens = bucket(sum(sizes))
        small = tokens <= MAX_TOKENS and tokens * self._weights <= MAX_WORK
        return small and max(sizes) <= LONGEST and all(piece.start > 0 for piece in pieces)

    def run(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> Tensor:
        """Replay a step; return the hidden states of its tokens and of the padding behind them."""
        total = sum(len(piece.tokens) for piece in pieces)
        key = Size(bucket(total), total == len(pieces))
        plan = self._layout(key, pieces, prefixes)
        graph = self._graphs.get(key)
        if graph is None:
            met = self._met[key] = self._met.get(key, 0) + 1
            if met < OFTEN:
                return self._once(plan, key.single)
            graph = self._graphs[key] = self._capture(plan, key.single)
        given = lying(torch.from_numpy(plan.values), self._decoder.device)
        graph.inbox.copy_(given, non_blocking=True)
        return graph.replay()

    def _once(self, plan: Layout, single: bool) -> Tensor:
        """Run a step eagerly: a shape that hardly comes up is not worth recording."""
        given = sent(torch.from_numpy(plan.values), self._decoder.device)
        chunk = self._store.unpack(given, plan.tokens, plan.rows, 1 if single else LONGEST)
        return self._decoder.forward(chunk, self._store)

    def _layout(self, size: Size, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> Layout:
        rows = size.tokens if size.single else self._store.rows
        return self._store.layout(pieces, prefixes, size.tokens, rows, size.single)

    def prime(self, most: int) -> None:
        """Capture every shape up to this many tokens now, instead of when it first comes up."""
        tokens = 1
        while (tokens := bucket(tokens)) <= min(most, MAX_TOKENS):
            single = [True, False] if tokens <= bucket(self._store.rows) else [False]
            for size in (Size(tokens, kind) for kind in single):
                if size not in self._graphs and tokens * self._weights <= MAX_WORK:
                    self._graphs[size] = self._capture(self._layout(size, [], []), size.single)
            tokens += 1

    def _capture(self, plan: Layout, single: bool) -> _Graph:
        """Record a step over the inputs of the first one: warming up writes what it will write."""
        decoder, store = self._decoder, self._store
        inbox = torch.from_numpy(plan.values).to(decoder.device)

        def step() -> Tensor:
            chunk = store.unpack(inbox, plan.tokens, plan.rows, 1 if single else LONGEST)
            return decoder.forward(chunk, store)

        return _Graph(self._record(step), inbox, (decoder.tables, store.tensors()))


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
