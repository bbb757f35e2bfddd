"""The lean backend: runs batches of rows through the lean decoder, its caches and its prefixes.

Shared prefixes are run once and kept; each row owns a cache slot. On CUDA passes of frequent shapes
replay captured graphs (see `cuda.graphs`); all others, and every pass on a CPU, run packed, without
padding.
Invariant: a row reads only keys and values written by itself or by its prefix.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch import Tensor

from waggle.core.errors import ConfigError
from waggle.engine.backends.base import (
    DrawFuture,
    MultiStepOutput,
    MultiStepRow,
    RowInput,
    Text,
    TokenFuture,
)
from waggle.engine.backends.lm_head import LMHead
from waggle.engine.cuda.graphs import ChoiceGraphs, PassGraphs
from waggle.engine.cuda.greedy_loop import GreedyLoop
from waggle.engine.cuda.kernels import triton_kernels
from waggle.engine.memory import attempted, halved, spare
from waggle.engine.model.config import Shape
from waggle.engine.model.decoder import Decoder
from waggle.engine.model.int8 import Int8Linear
from waggle.engine.model.kv_cache import Piece, PrefixKV, Store, index_tensor
from waggle.engine.model.kv_rows import RowStore
from waggle.engine.model.kv_shared import SharedStore
from waggle.engine.model.linear import Linear
from waggle.engine.sampling import draw_among

PREFIX_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}
"""Bytes for the keys and values of prefixes; beyond it the least recently used that no row of the
pass needs are dropped."""
CPU_BUDGET = 768
"""Tokens per part of a pass on a CPU: enough for efficient matrix products, few enough for a core's
caches."""
LEAST_SHARE = 24
"""The fewest tokens worth a separate core; fewer are limited by reading the weights."""
GPU_BUDGET = 32_768
DRAFTED = 16
"""Tokens of a row in a step that drafts: its last token and a draft."""
LEAST_TOKENS = 2048
"""A pass of up to this many tokens on a GPU is split only after it has failed."""
HEADROOM = 0.8
"""The fraction of the spare memory that a pass may use: the spare memory is fragmented."""

Part = TypeVar("Part")
Result = TypeVar("Result")


class LeanBackend:
    """Runs rows of tokens through a decoder with prefix reuse."""

    verifies = True

    def __init__(self, model: Any, max_rows: int, graphs: bool = True, int8: bool = False) -> None:
        self.decoder = Decoder(model, Int8Linear if int8 else Linear)
        self.device = self.decoder.device
        self.store: Store
        self.graphs: PassGraphs | None = None
        self.loop: GreedyLoop | None = None
        shape, dtype = self.decoder.shape, self.decoder.dtype
        kernels = triton_kernels(self.device, dtype, self.decoder.rotation(), shape)
        if kernels is None:
            self.store = SharedStore(shape, max_rows, dtype, self.device)
        else:
            self.decoder.operations = kernels
            self.store = store = RowStore(shape, max_rows, dtype, self.device, kernels)
            if graphs:
                self.graphs = PassGraphs(self.decoder, store)
                self.loop = GreedyLoop(self.decoder, store, kernels.propose)
        self.asynchronous = self.device.type == "cuda"
        self.budget = GPU_BUDGET if self.asynchronous else CPU_BUDGET
        self.cores: CoreThreads | None = None
        if self.device.type == "cpu" and torch.get_num_threads() > 1:
            self.cores = CoreThreads(torch.get_num_threads())
        self._fitted = LEAST_TOKENS
        """Tokens of the largest part of a pass that has fitted in memory."""
        self._relieved = 0
        """The number of times that memory ran short."""
        self._prefixes: OrderedDict[tuple[int, ...], PrefixKV] = OrderedDict()
        head = self.decoder.head
        self._head = LMHead(head, self._relieve)
        if self.graphs is not None:
            self._head.graphs = ChoiceGraphs(head)
            self._head.draws = ChoiceGraphs(head, choose=draw_among)

    @property
    def multi_step(self) -> bool:
        """Whether rows can decode many steps without the host: true if steps are captured."""
        return self.loop is not None

    def decode_steps(
        self, rows: Sequence[MultiStepRow], ends: Sequence[int], history: Text | None
    ) -> list[MultiStepOutput]:
        """Decode rows for several steps; with a history of answers the device drafts from it."""
        assert self.loop is not None
        with torch.inference_mode():
            return self.loop.run(rows, ends, history, 1 if history is None else DRAFTED)

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows fit in memory if one of them has this size."""
        return self.store.room(prefix, own)

    def reserve(self, prefix: int, own: int) -> None:
        """Make room for rows of `own` positions after a prefix of `prefix` positions."""
        moved = self.store.reserve(prefix, own)
        stretched = self.decoder.reserve(prefix + own + self.store.capacity)
        if moved or stretched:
            if self.device.type == "cuda":
                torch.cuda.synchronize()  # a captured step may still be running
            self._void()
        if moved and self.device.type == "cuda":
            torch.cuda.empty_cache()  # blocks of the old caches' sizes will not be needed again

    def _void(self) -> None:
        """Drop captured passes: the tensors that they read by address have moved."""
        for captured in (self.graphs, self.loop):
            if captured is not None:
                captured.clear()

    def shrink(self, positions: int) -> None:
        """Free caches that are far too long for rows of `positions`; no rows may be running."""
        if self.store.shrink(positions):
            self._void()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def refresh(self, model: Any) -> None:
        """Load the current weights of a model of the same shape; no rows may be running.

        The weights are written in place, where captured passes read them.
        """
        if Shape.of(model.config) != self.decoder.shape:
            raise ConfigError("the model has another shape; make another engine for it")
        modules: Iterable[Any] = getattr(model, "modules", tuple)()
        if not all(getattr(module, "merged", True) for module in modules):
            raise ConfigError("the model has an adapter apart; call merge_adapter() before")
        self.decoder.refresh(model)
        self._prefixes.clear()

    def forget(self) -> None:
        """Free the caches after a failure, which may have left them half-built.

        A cache that lacks a layer, or that is recorded as holding a prefix it does not hold, would
        silently make every later answer wrong.
        """
        self._void()
        self._prefixes.clear()
        self._fitted = LEAST_TOKENS
        self.store.forget()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def describe(self) -> str:
        """Return a short description of how this backend computes, for reports."""
        kind = "fused steps" if isinstance(self.store, RowStore) else "shared prefix"
        return f"{kind}{', graphs' if self.graphs is not None else ''}"

    def prefix(self, tokens: tuple[int, ...]) -> PrefixKV:
        """Return the keys and values of a prefix, running it only if no kept one begins with it."""
        known = self._prefixes.get(tokens)
        if known is None:
            known = self._prefixes[tokens] = self._run_prefix(tokens)
        self._prefixes.move_to_end(tokens)
        return known

    def _collect(self, wanted: Iterable[tuple[int, ...]]) -> dict[int, PrefixKV]:
        """Return the prefixes of a pass by the `id` of their tokens; drop others beyond the limit.

        By identity: a prefix is long, and rows usually share the same object.
        """
        before = len(self._prefixes)
        found = {key: self.prefix(tokens) for key, tokens in {id(t): t for t in wanted}.items()}
        if len(self._prefixes) > before:
            needed = set(map(id, found.values()))
            kept = sum(prefix.size for prefix in self._prefixes.values())
            for tokens, prefix in list(self._prefixes.items()):
                if kept > PREFIX_BYTES[self.device.type] and id(prefix) not in needed:
                    del self._prefixes[tokens]
                    kept -= prefix.size
        return found

    def _run_prefix(self, tokens: tuple[int, ...]) -> PrefixKV:
        count = len(tokens)
        if not tokens:
            return PrefixKV([], 0)
        for longer, kept in self._prefixes.items():
            if longer[:count] == tokens:
                return self.store.cut(kept, count)
        self.decoder.reserve(count)
        store = self.store.single(count)
        chunk = store.chunk([Piece(0, tokens, 0)], [PrefixKV([], 0)])

        def work(keep: Tensor) -> Tensor:
            return self.decoder.forward(chunk, store, keep)

        first = index_tensor([0], self.device)
        work(first) if self.cores is None else self.cores.map(work, [first])
        return store.prefix(count)

    def run(self, rows: Sequence[RowInput]) -> Tensor:
        """Run tokens of each row; return the hidden states at the asked offsets, row after row."""
        slots, tokens, starts, asked, prefixes = zip(*rows, strict=True)
        pieces = [*map(Piece, slots, tokens, starts)]
        with torch.inference_mode():
            known = self._collect(prefixes)
            kept = [known[id(tokens)] for tokens in prefixes]
            self.store.widen(max(slots) + 1)
            parted = self._spans(pieces)

            def work(some: slice) -> Tensor:
                given = pieces[some], kept[some], asked[some]
                found = self._replay(*given)
                return self._run_packed(*given) if found is None else found

            def part(span: tuple[int, int]) -> Tensor:
                return halved(work, range(*span), self._relieve)

            relieved = self._relieved
            parts = self.cores.map(part, parted) if self.cores else [*map(part, parted)]
            if relieved == self._relieved:
                self._note_fit(pieces, parted)
            return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _replay(
        self,
        pieces: Sequence[Piece],
        prefixes: Sequence[PrefixKV],
        asked: Sequence[Sequence[int]],
    ) -> Tensor | None:
        """Replay a captured pass; return None if none is captured or memory does not suffice."""
        graphs = self.graphs
        if graphs is None:
            return None

        def replay() -> Tensor | None:
            found = graphs.run(pieces, prefixes)
            return None if found is None else found[index_tensor(_flat(pieces, asked), self.device)]

        return attempted(replay, self._relieve)

    def _relieve(self) -> None:
        """Free the memory of everything that is kept only to save time."""
        self._prefixes.clear()
        self._head.clear()
        self._fitted, self._relieved = LEAST_TOKENS, self._relieved + 1
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _spans(self, pieces: Sequence[Piece]) -> list[tuple[int, int]]:
        """Split a batch into consecutive spans within the budget, one for each core worth using."""
        total = sum(len(piece.tokens) for piece in pieces)
        budget = self.budget
        if self.device.type == "cuda" and min(total, budget) > self._fitted:
            size = self.decoder.dtype.itemsize  # the query is slow: a size that fitted is reused
            budget = min(budget, affordable(self.device, self.decoder.shape, size))
        workers = 0 if self.cores is None else min(self.cores.count, total // LEAST_SHARE)
        if workers > 1:
            rounds = -(-total // (workers * self.budget))
            budget = -(-total // (workers * rounds))
        return split([len(piece.tokens) for piece in pieces], budget)

    def _note_fit(self, pieces: Sequence[Piece], parted: Sequence[tuple[int, int]]) -> None:
        """Record the size of the largest part of a pass that succeeded."""
        largest = max(sum(len(piece.tokens) for piece in pieces[a:b]) for a, b in parted)
        self._fitted = max(self._fitted, min(largest, self.budget))

    def _run_packed(
        self,
        pieces: Sequence[Piece],
        prefixes: Sequence[PrefixKV],
        asked: Sequence[Sequence[int]],
    ) -> Tensor:
        keep = _flat(pieces, asked)
        whole = len(keep) == sum(len(piece.tokens) for piece in pieces)
        chunk = self.store.chunk(pieces, prefixes)
        wanted = None if whole else index_tensor(keep, self.device)
        return self.decoder.forward(chunk, self.store, wanted)

    def release(self, slot: int) -> None:
        """Do nothing: a slot is overwritten by its next row."""

    def argmax(self, hidden: Tensor, banned: Sequence[int] = ()) -> TokenFuture:
        """Request the most likely next token of each state, excluding banned tokens."""
        with torch.inference_mode():
            return self._head.argmax(hidden, banned)

    def choose(self, hidden: Tensor, allowed: Sequence[tuple[int, ...]]) -> TokenFuture:
        """Request each state's most likely token among those it is allowed."""
        head = self._head
        choose = head.choose_from_all if self.asynchronous else head.choose_from_few
        with torch.inference_mode():
            return choose(hidden, allowed)

    def sample(
        self,
        hidden: Tensor,
        own: Tensor,
        allowed: Sequence[tuple[int, ...]] | None = None,
        banned: Sequence[int] = (),
    ) -> DrawFuture:
        """Request a token of each state, drawn by its own columns."""
        with torch.inference_mode():
            if allowed is None:
                return self._head.sample(hidden, own, banned)
            if self.asynchronous:
                return self._head.sample_from_all(hidden, own, allowed)
            return self._head.sample_from_few(hidden, own, allowed)


def _flat(pieces: Sequence[Piece], asked: Sequence[Sequence[int]]) -> list[int]:
    """Return the indices of the asked offsets among all tokens of a batch."""
    firsts = accumulate((len(piece.tokens) for piece in pieces), initial=0)
    return [
        first + offset for first, offsets in zip(firsts, asked, strict=False) for offset in offsets
    ]


def affordable(device: torch.device, shape: Shape, itemsize: int) -> int:
    """Return how many tokens a pass may have, given the spare memory of a GPU.

    A token needs memory for its state and the update added to it, for its queries, keys and values
    before and after rotation, and for both products of the inner layer and their result.
    """
    heads = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    each = itemsize * (3 * shape.hidden + 2 * heads + 3 * shape.inner)
    loose = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(LEAST_TOKENS, int(HEADROOM * (spare(device) + loose)) // each)


class CoreThreads:
    """Threads that compute with one core each; each runs its own rows through the whole model.

    Splitting every small product over the cores would synchronise them hundreds of times per pass,
    each time waiting for the slowest core: slow on an idle machine, much slower on a busy one. Here
    a pass waits once. The result of a part does not depend on the thread that runs it.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def _open(self) -> ThreadPoolExecutor:
        """Start the threads at the first use; the caller's thread setting is left unchanged."""
        with self._lock:
            if self._pool is None:
                threads = torch.get_num_threads()
                ready = threading.Barrier(self.count + 1)
                self._pool = ThreadPoolExecutor(self.count, "core")
                for _ in range(self.count):
                    self._pool.submit(_settle, ready)
                ready.wait()
                torch.set_num_threads(threads)
            return self._pool

    def map(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
        """Run all parts and return their results in order."""

        def one(part: Part) -> Result:
            with torch.inference_mode():
                return work(part)

        return list(self._open().map(one, parts))


def _settle(ready: threading.Barrier) -> None:
    torch.get_num_threads()  # a thread's first call adopts the process's setting: do it first
    torch.set_num_threads(1)
    ready.wait()


def split(sizes: Sequence[int], budget: int) -> list[tuple[int, int]]:
    """Split consecutive rows of the given sizes into spans, each roughly within the budget."""
    if sum(sizes) <= budget:
        return [(0, len(sizes))]
    edges = [0]
    filled = 0
    for row, size in enumerate(sizes):
        if row > edges[-1] and filled + size // 2 > budget:
            edges.append(row)
            filled = 0
        filled += size
    return list(zip(edges, [*edges[1:], len(sizes)], strict=True))
