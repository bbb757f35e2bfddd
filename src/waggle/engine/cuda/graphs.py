"""CUDA graphs for passes: steps of rows under way, prompts, and both together.

A pass of a small model is a dozen short kernels per layer, and launching them costs the host more
than running them costs the device. Rows are ragged on the device and idle ones cost nothing, so a
pass's shape is two numbers, rounded up: its tokens, and those of its longest row, which tell the
attention kernel of torch how far to reach; ours only asks whether every row has one. Each shape
that comes up often is captured once over static buffers and replayed. Padding tokens belong to
scratch rows that nobody reads. All graphs write what they found to one outbox: whoever replays one
takes it from there before the next is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from waggle.engine.cuda.shelf import Shelf
from waggle.engine.model.decoder import Decoder
from waggle.engine.model.kv_cache import Piece, PrefixKV
from waggle.engine.model.kv_rows import Layout, RowStore

MAX_TOKENS = 36_864
"""Largest pass a graph holds; beyond it launches no longer matter."""
FINE = 2048
"""Tokens beyond which a pass costs what its tokens do: sizes lie closer together."""
FEW = 128
"""Tokens of a row up to which torch's attention kernel is told to reach, where they are few."""
MAX_WORK = 5e12
"""Tokens times weights a graph may cost; beyond it, launches no longer matter either."""

Step = Callable[[], Tensor]


class Size(NamedTuple):
    """The shape of a pass, rounded up: its tokens, and those of its longest row."""

    tokens: int
    reach: int

    @property
    def single(self) -> bool:
        """Whether every row has one token."""
        return self.reach == 1


@dataclass(slots=True)
class _Graph:
    replay: Step
    inbox: Tensor
    reads: tuple[Any, ...]
    """What the recorded kernels read by address: it must live as long as the graph."""


def bucket(value: int) -> int:
    """Round a size up: to a power of two or one and a half times one, or closer if it is large."""
    power = 1 << max(4, (value - 1).bit_length())
    if value > FINE:
        return -(-value // (power // 16)) * (power // 16)
    return power * 3 // 4 if value <= power * 3 // 4 else power


def reach(longest: int) -> int:
    """Round the tokens of the longest row up, generously: blocks that find none end at once."""
    if longest == 1:
        return 1
    found = FEW
    while found < longest:
        found *= 4
    return found


class PassGraphs:
    """Captured passes, by shape."""

    def __init__(
        self,
        decoder: Decoder,
        store: RowStore,
        capture: Callable[[Step], Step] | None = None,
    ) -> None:
        """Hold graphs of a decoder; `capture` turns a pass into its replay (a test's seam)."""
        self._decoder = decoder
        self._store = store
        self._weights = decoder.parameters()
        self._graphs: Shelf[Size, _Graph] = Shelf()
        self._outbox: Tensor | None = None
        self._record = capture or Recorder()

    def clear(self) -> None:
        """Drop every graph (the caches they point into are gone)."""
        self._graphs.clear()
        self._outbox = None

    def run(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> Tensor | None:
        """Replay a pass; return the states of its tokens and of the padding behind them.

        They stay until the next pass is run. None where its shape is not recorded.
        """
        size = self._size(pieces)
        if not self._small(size) or not self._graphs.has(size):
            return None
        plan = self._layout(size, pieces, prefixes)
        graph = self._graphs.take(size, lambda: self._capture(plan, size))
        graph.inbox.copy_(plan.values, non_blocking=True)
        return graph.replay()

    def _size(self, pieces: Sequence[Piece]) -> Size:
        sizes = [len(piece.tokens) for piece in pieces]
        return Size(bucket(sum(sizes)), self._reach(max(sizes)))

    def _reach(self, longest: int) -> int:
        return reach(longest) if self._store.mixer is None else min(longest, 2)

    def _small(self, size: Size) -> bool:
        return size.tokens <= self._most

    @property
    def _most(self) -> int:
        """Tokens of the largest pass that is recorded."""
        return min(MAX_TOKENS, int(MAX_WORK / self._weights))

    def _layout(self, size: Size, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> Layout:
        rows = size.tokens if size.single else self._store.rows
        return self._store.layout(pieces, prefixes, size.tokens, rows, size.single)

    def prime(self, most: int, prompt: int) -> None:
        """Capture shapes now, instead of when they have come up often.

        Args:
            most: tokens of the largest pass whose rows have few each.
            prompt: tokens of the longest prompt; passes with one are captured in every size.
        """
        for size in (*self._steps(most), *self._prompts(prompt)):
            if size not in self._graphs and self._small(size):
                self._graphs[size] = self._capture(self._layout(size, [], []), size)

    def _steps(self, most: int) -> Iterator[Size]:
        for tokens in buckets(1, most):
            if tokens <= bucket(self._store.rows):
                yield Size(tokens, 1)
            yield Size(tokens, self._reach(FEW))

    def _prompts(self, longest: int) -> Iterator[Size]:
        if longest > FEW:
            far = self._reach(longest)
            yield from (Size(tokens, far) for tokens in buckets(longest, self._most))

    def _capture(self, plan: Layout, size: Size) -> _Graph:
        """Record a pass over the inputs of the first one: warming up writes what it will write."""
        decoder, store = self._decoder, self._store
        inbox = plan.values.to(decoder.device)
        if self._outbox is None:
            room = (self._most, decoder.shape.hidden)
            self._outbox = torch.zeros(room, dtype=decoder.dtype, device=decoder.device)
        outbox = self._outbox[: plan.tokens]

        def work() -> Tensor:
            chunk = store.unpack(inbox, plan.tokens, plan.rows, size.reach)
            return outbox.copy_(decoder.forward(chunk, store))

        return _Graph(self._record(work), inbox, (decoder.tables, store.tensors()))


def buckets(least: int, most: int) -> Iterator[int]:
    """Yield the rounded sizes between two sizes."""
    tokens = bucket(least)
    while tokens <= most:
        yield tokens
        tokens = bucket(tokens + 1)


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
