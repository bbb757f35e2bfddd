"""CUDA graphs for passes and for choices among allowed tokens.

A pass of a small model is a dozen short kernels per layer, and launching them costs the host more
than running them costs the device; the LM head of rows under a grammar is a dozen more. So each
frequent size is captured once over static buffers and replayed. Sizes are rounded up, so that few
different ones occur; padding belongs to scratch rows, or repeats an allowed token, and is never
read.

Rows are ragged on the device and idle ones cost nothing, so the size of a pass is its number of
tokens, and whether every row has one. All passes write their results to one outbox, which is read
before the next pass is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from waggle.engine.model.decoder import Decoder, greedy
from waggle.engine.model.kv_cache import Piece, PrefixKV
from waggle.engine.model.kv_rows import Layout, RowStore
from waggle.engine.model.linear import Linear

OFTEN = 3
"""The occurrence at which a size is captured; capturing takes as long as several passes."""
RETRY = 1000
"""The number of further occurrences after which a failed capture is tried again."""
MAX_TOKENS = 36_864
"""Tokens of the largest captured pass; beyond it launch time is negligible."""
MAX_WORK = 5e12
"""Tokens times weights of the largest captured pass; beyond it launch time is negligible, too."""
FINE = 2048
"""Tokens beyond which the cost is proportional to the tokens, so sizes are spaced closer."""
MAX_STATES = 1024
"""States of the largest choice that is captured."""
MAX_ALLOWED = 64
"""Allowed tokens of the widest choice that is captured; more are rare."""

Step = Callable[[], Tensor]
Key = TypeVar("Key", bound=Hashable)
Graph = TypeVar("Graph")


class Recorder:
    """Captures steps as CUDA graphs in one memory pool."""

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
        """Run a step once to warm up, capture it, and return its replay."""
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool()):
            found = step()

        def replay() -> Tensor:
            graph.replay()
            return found

        return replay


class GraphCache(dict[Key, Graph]):
    """Captured steps by size, with the occurrences of each size; clearing keeps these counts."""

    def __init__(self) -> None:
        super().__init__()
        self._met: dict[Key, int] = {}

    def wants(self, size: Key) -> bool:
        """Count an occurrence of a size; return whether it is captured or due for capture."""
        if size in self:
            return True
        self._met[size] = self._met.get(size, 0) + 1
        return self._met[size] >= OFTEN

    def take(self, size: Key, capture: Callable[[], Graph]) -> Graph:
        """Return the captured step of a size, capturing it if necessary."""
        found = self.get(size)
        if found is None:
            self._met[size] = -RETRY  # in case the capture fails
            found = self[size] = capture()
            self._met[size] = OFTEN  # if dropped, it is captured again at its next occurrence
        return found


def bucket(value: int) -> int:
    """Round a size up to a power of two or 1.5 times one, or in finer steps if it is large."""
    power = 1 << max(4, (value - 1).bit_length())
    if value > FINE:
        return -(-value // (power // 16)) * (power // 16)
    return power * 3 // 4 if value <= power * 3 // 4 else power


class Size(NamedTuple):
    """The size of a pass: its number of tokens, rounded up, and whether every row has one."""

    tokens: int
    single: bool


@dataclass(slots=True)
class _Pass:
    replay: Step
    inbox: Tensor
    reads: tuple[Any, ...]
    """Tensors that the captured kernels read by address; they must live as long as the graph."""


class PassGraphs:
    """Captured passes, by size."""

    def __init__(
        self,
        decoder: Decoder,
        store: RowStore,
        capture: Callable[[Step], Step] | None = None,
    ) -> None:
        """Hold graphs of a decoder; `capture` turns a pass into its replay (replaced in tests)."""
        self._decoder = decoder
        self._store = store
        self._weights = decoder.parameters()
        self._graphs: GraphCache[Size, _Pass] = GraphCache()
        self._outbox: Tensor | None = None
        self._record = capture or Recorder()

    def clear(self) -> None:
        """Drop every graph, since the caches it reads are gone."""
        self._graphs.clear()
        self._outbox = None

    def run(self, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> Tensor | None:
        """Replay a pass; return the states of its tokens, followed by those of the padding.

        The states are valid until the next pass. Return None if the size is not captured.
        """
        size = self._size(pieces)
        if not self._small(size) or not self._graphs.wants(size):
            return None
        plan = self._layout(size, pieces, prefixes)
        graph = self._graphs.take(size, lambda: self._capture(plan, size))
        graph.inbox.copy_(plan.values, non_blocking=True)
        return graph.replay()

    def _size(self, pieces: Sequence[Piece]) -> Size:
        sizes = [len(piece.tokens) for piece in pieces]
        return Size(bucket(sum(sizes)), max(sizes) == 1)

    def _small(self, size: Size) -> bool:
        return size.tokens <= self._most

    @property
    def _most(self) -> int:
        """The number of tokens of the largest pass that is captured."""
        return min(MAX_TOKENS, int(MAX_WORK / self._weights))

    def _layout(self, size: Size, pieces: Sequence[Piece], prefixes: Sequence[PrefixKV]) -> Layout:
        rows = size.tokens if size.single else self._store.rows
        return self._store.layout(pieces, prefixes, size.tokens, rows, size.single)

    def _capture(self, plan: Layout, size: Size) -> _Pass:
        """Capture a pass over its first inputs; warm-up and replay write the same values."""
        decoder, store = self._decoder, self._store
        inbox = plan.values.to(decoder.device)
        if self._outbox is None:
            room = (self._most, decoder.shape.hidden)
            self._outbox = torch.zeros(room, dtype=decoder.dtype, device=decoder.device)
        outbox = self._outbox[: plan.tokens]

        def work() -> Tensor:
            chunk = store.unpack(inbox, plan.tokens, plan.rows, size.single)
            return outbox.copy_(decoder.forward(chunk, store))

        return _Pass(self._record(work), inbox, (decoder.tables, store.tensors()))


Choose = Callable[[Tensor, Tensor], Tensor]
"""A function that chooses from all logits, given the list of tokens allowed to each state."""


def greedy_among(logits: Tensor, allowed: Tensor) -> Tensor:
    """Return each state's most likely token among those allowed to it, -1 for broken logits."""
    best = greedy(logits.gather(1, allowed)).unsqueeze(1)
    token = allowed.gather(1, best.clamp_min(0))
    return torch.where(best < 0, best, token).squeeze(1)


@dataclass(slots=True)
class _Choice:
    replay: Step
    states: Tensor
    allowed: Tensor


class ChoiceGraphs:
    """Captured choices, by number of states and of tokens allowed to each state."""

    def __init__(
        self,
        head: Linear,
        capture: Callable[[Step], Step] | None = None,
        choose: Choose = greedy_among,
    ) -> None:
        """Hold choices by a head; `capture` turns a step into its replay (replaced in tests)."""
        self._head = head
        self._choose = choose
        self._graphs: GraphCache[tuple[int, int], _Choice] = GraphCache()
        self._record = capture or Recorder()

    def clear(self) -> None:
        """Drop every graph."""
        self._graphs.clear()

    def run(self, hidden: Tensor, allowed: Tensor) -> Tensor | None:
        """Replay a choice; return the result of each list, of which the last may have no state.

        The results are valid until the next choice. Return None if the size is not captured.
        """
        size = allowed.shape[0], allowed.shape[1]
        if size[0] > MAX_STATES or size[1] > MAX_ALLOWED or not self._graphs.wants(size):
            return None
        graph = self._graphs.take(size, lambda: self._capture(*size))
        graph.states[: len(hidden)].copy_(hidden)
        graph.allowed.copy_(allowed, non_blocking=True)
        return graph.replay()

    def _capture(self, rows: int, width: int) -> _Choice:
        head, choose = self._head, self._choose
        states = head.weight.new_zeros((rows, head.weight.shape[1]))
        allowed = torch.zeros((rows, width), dtype=torch.long, device=head.weight.device)
        replay = self._record(lambda: choose(head(states), allowed))
        return _Choice(replay, states, allowed)
