"""Where the lean decoder, its caches and its prefixes meet batches of rows.

Shared prefixes are run once and kept; each row owns a cache slot. On CUDA passes of shapes that
come up often replay captured graphs (see `cuda.graphs`); all others, and every pass on a
CPU, run packed, without padding.
Invariant: what a row reads was written by itself or by its prefix.
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
"""Memory for the keys and values of prefixes; the least used go first."""
CPU_BUDGET = 768
"""Tokens per part of a pass on a CPU: enough for its products, few enough for a core's caches."""
LEAST_SHARE = 24
"""Tokens that are worth a core of their own; fewer are limited by reading the weights."""
GPU_BUDGET = 32_768
DRAFTED = 16
"""Tokens of a row in a step that drafts: its last one and a draft of the others."""
LEAST_TOKENS = 2048
"""A pass of so many tokens on a GPU is never cut before it has failed."""
HEADROOM = 0.8
"""Part of the spare memory that a pass may be planned for: memory is spare in pieces."""

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
        """Tokens of the largest part of a pass that had the memory it needed."""
        self._relieved = 0
        """How often memory was short."""
        self._prefixes: OrderedDict[tuple[int, ...], PrefixKV] = OrderedDict()
        head = self.decoder.head
        self._head = LMHead(head, self._relieve)
        if self.graphs is not None:
            self._head.graphs = ChoiceGraphs(head)
            self._head.draws = ChoiceGraphs(head, choose=draw_among)

    @property
    def multi_step(self) -> bool:
        """Whether rows decode many steps by themselves: where steps are captured."""
        return self.loop is not None

    def decode_steps(
        self, rows: Sequence[MultiStepRow], ends: Sequence[int], history: Text | None
    ) -> list[MultiStepOutput]:
        """Decode rows for some steps; with a history of answers the device drafts from it."""
        assert self.loop is not None
        with torch.inference_mode():
            return self.loop.run(rows, ends, history, 1 if history is None else DRAFTED)

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows the memory holds when one of this size is among them."""
        return self.store.room(prefix, own)

    def reserve(self, prefix: int, own: int) -> None:
        """Make room for rows of this many own positions after this long a prefix."""
        moved = self.store.reserve(prefix, own)
        stretched = self.decoder.reserve(prefix + own + self.store.capacity)
        if moved or stretched:
            if self.device.type == "cuda":
                torch.cuda.synchronize()  # a captured step may still be on its way
            self._void()
        if moved and self.device.type == "cuda":
            torch.cuda.empty_cache()  # what was moved away is of no size that comes again

    def _void(self) -> None:
        """Drop recorded passes: what they read by address has moved."""
        for captured in (self.graphs, self.loop):
            if captured is not None:
                captured.clear()

    def refresh(self, model: Any) -> None:
        """Take over the weights that a model of the same shape has now; rows have left.

        They are written where captured passes read them.
        """
        if Shape.of(model.config) != self.decoder.shape:
            raise ConfigError("the model has another shape; make another engine for it")
        modules: Iterable[Any] = getattr(model, "modules", tuple)()
        if not all(getattr(module, "merged", True) for module in modules):
            raise ConfigError("the model has an adapter apart; call merge_adapter() before")
        self.decoder.refresh(model)
        self._prefixes.clear()

    def forget(self) -> None:
        """Give caches back after a failure, which may have left them half made.

        A cache that is short of a layer, or that is said to hold a prefix it does not hold, would
        make every later answer wrong without a word.
        """
        self._void()
        self._prefixes.clear()
        self._fitted = LEAST_TOKENS
        self.store.forget()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def prime(self, most: int, prompt: int) -> None:
        """Make steps of up to this many tokens ready, and passes with prompts of this length."""
        with torch.inference_mode():
            self._head.prime(most)
            if self.graphs is not None:
                self.graphs.prime(most, prompt)
            if self.loop is not None:
                self.loop.prime(DRAFTED)

    def describe(self) -> str:
        """Say how this backend computes, for reports."""
        kind = "fused steps" if isinstance(self.store, RowStore) else "shared prefix"
        return f"{kind}{', graphs' if self.graphs is not None else ''}"

    def prefix(self, tokens: tuple[int, ...]) -> PrefixKV:
        """Return the keys and values of a prefix, running it only if nothing kept begins so."""
        known = self._prefixes.get(tokens)
        if known is None:
            known = self._prefixes[tokens] = self._run_prefix(tokens)
            while len(self._prefixes) > 1 and self._kept() > PREFIX_BYTES[self.device.type]:
                self._prefixes.popitem(last=False)
        self._prefixes.move_to_end(tokens)
        return known

    def _kept(self) -> int:
        return sum(prefix.size for prefix in self._prefixes.values())

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
        """Run tokens of each row; return hidden states at the asked offsets of each in turn."""
        slots, tokens, starts, asked, prefixes = zip(*rows, strict=True)
        pieces = [*map(Piece, slots, tokens, starts)]
        with torch.inference_mode():
            # By identity: a prefix is long, and rows mostly share the very same one.
            known = {key: self.prefix(t) for key, t in {id(t): t for t in prefixes}.items()}
            kept = [known[id(tokens)] for tokens in prefixes]
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
        """Run a pass as it was recorded; None where it was not, or there is no room to do so."""
        graphs = self.graphs
        if graphs is None:
            return None

        def replay() -> Tensor | None:
            found = graphs.run(pieces, prefixes)
            return None if found is None else found[index_tensor(_flat(pieces, asked), self.device)]

        return attempted(replay, self._relieve)

    def _relieve(self) -> None:
        """Give back what is only kept to save time."""
        self._prefixes.clear()
        self._head.clear()
        self._fitted, self._relieved = LEAST_TOKENS, self._relieved + 1
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _spans(self, pieces: Sequence[Piece]) -> list[tuple[int, int]]:
        """Split a batch into consecutive spans: within the budget, and enough for all cores."""
        total = sum(len(piece.tokens) for piece in pieces)
        budget = self.budget
        if self.device.type == "cuda" and min(total, budget) > self._fitted:
            size = self.decoder.dtype.itemsize  # asking takes time: what fitted once fits again
            budget = min(budget, affordable(self.device, self.decoder.shape, size))
        if self.cores is not None and total >= self.cores.count * LEAST_SHARE:
            rounds = -(-total // (self.cores.count * self.budget))
            budget = -(-total // (self.cores.count * rounds))
        return split([len(piece.tokens) for piece in pieces], budget)

    def _note_fit(self, pieces: Sequence[Piece], parted: Sequence[tuple[int, int]]) -> None:
        """Remember how large a part of a pass went through."""
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
        """Nothing to do: a slot is overwritten by its next row."""

    def argmax(self, hidden: Tensor, banned: Sequence[int] = ()) -> TokenFuture:
        """Ask for the most likely next token of each state, banned tokens aside."""
        with torch.inference_mode():
            return self._head.argmax(hidden, banned)

    def choose(self, hidden: Tensor, allowed: Sequence[tuple[int, ...]]) -> TokenFuture:
        """Ask for each state's most likely token among those allowed to it."""
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
        """Ask for a token of each state that is drawn by its own columns."""
        with torch.inference_mode():
            if allowed is None:
                return self._head.sample(hidden, own, banned)
            if self.asynchronous:
                return self._head.sample_from_all(hidden, own, allowed)
            return self._head.sample_from_few(hidden, own, allowed)


def _flat(pieces: Sequence[Piece], asked: Sequence[Sequence[int]]) -> list[int]:
    """Return where the asked offsets lie among all tokens of a batch."""
    firsts = accumulate((len(piece.tokens) for piece in pieces), initial=0)
    return [
        first + offset for first, offsets in zip(firsts, asked, strict=False) for offset in offsets
    ]


def affordable(device: torch.device, shape: Shape, itemsize: int) -> int:
    """Return how many tokens a pass may have by the memory that a GPU can spare.

    A token holds its state and what is added to it, its queries, keys and values before and after
    they are rotated, and both products of the inner layer with what they make.
    """
    heads = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    each = itemsize * (3 * shape.hidden + 2 * heads + 3 * shape.inner)
    loose = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(LEAST_TOKENS, int(HEADROOM * (spare(device) + loose)) // each)


class CoreThreads:
    """Threads that compute with one core each; each runs its own rows through the whole model.

    Splitting every small product over the cores means waiting for each other hundreds of times per
    pass, and for the slowest core each time: costly on an idle machine, ruinous on a busy one. Here
    a pass waits once. Which thread runs a part never shows in its result.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def _open(self) -> ThreadPoolExecutor:
        """Start the threads at the first use; the caller's own setting stays as it is."""
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
        """Do all parts and return their results in order."""

        def one(part: Part) -> Result:
            with torch.inference_mode():
                return work(part)

        return list(self._open().map(one, parts))


def _settle(ready: threading.Barrier) -> None:
    torch.get_num_threads()  # a thread's first use takes over the process's setting: let it pass
    torch.set_num_threads(1)
    ready.wait()


def split(sizes: Sequence[int], budget: int) -> list[tuple[int, int]]:
    """Split consecutive rows of some sizes into spans, each about within the budget."""
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
