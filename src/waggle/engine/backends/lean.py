"""Where the lean decoder, its caches and its prefixes meet batches of rows.

Shared prefixes are run once and kept; each row owns a cache slot. On CUDA passes of shapes that
come up often replay captured graphs (see `cuda.graphs`); all others, and every pass on a
CPU, run packed, without padding.
Invariant: what a row reads was written by itself or by its prefix.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from waggle.engine import tempo
from waggle.engine.answers import Answers
from waggle.engine.backends.base import Pace, Rolled, Rolling, Running, Said
from waggle.engine.backends.lm_head import Output
from waggle.engine.cuda import flash
from waggle.engine.cuda.choice_graphs import ChoiceGraphs
from waggle.engine.cuda.graphs import PassGraphs, bucket
from waggle.engine.cuda.greedy_loop import GreedyLoop
from waggle.engine.effort import Effort
from waggle.engine.model.decoder import Decoder
from waggle.engine.model.kv_cache import Piece, PrefixKV, Store, indices
from waggle.engine.model.kv_rows import RowStore
from waggle.engine.model.kv_shared import SharedStore
from waggle.engine.model.lanes import Lanes, spans
from waggle.engine.shortage import LEAST_TOKENS, affordable, attempted, halved

PREFIX_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}
"""Memory for the keys and values of prefixes; the least used go first."""
CPU_BUDGET = 768
"""Tokens per part of a pass on a CPU: enough for its products, few enough for a core's caches."""
LEAST_SHARE = 24
"""Tokens that are worth a lane of their own; fewer are limited by reading the weights."""
GPU_BUDGET = 32_768


class LeanBackend:
    """Runs rows of tokens through a decoder with prefix reuse."""

    def __init__(self, model: Any, max_rows: int, graphs: bool = True) -> None:
        self.decoder = Decoder(model)
        self.device = self.decoder.device
        self.store: Store
        self.graphs: PassGraphs | None = None
        self.loop: GreedyLoop | None = None
        shape, dtype = self.decoder.shape, self.decoder.dtype
        if flash.works(self.device, dtype, shape.heads, shape.kv_heads, shape.head_dim):
            store = RowStore(shape, max_rows, dtype, self.device)
            store.mixer = self.decoder.kernels
            if graphs:
                self.graphs = PassGraphs(self.decoder, store)
                self.loop = GreedyLoop(self.decoder, store)
            self.store = store
        else:
            self.store = SharedStore(shape, max_rows, dtype, self.device)
        self.asynchronous = self.device.type == "cuda"
        self.budget = GPU_BUDGET if self.asynchronous else CPU_BUDGET
        self.lanes: Lanes | None = None
        if self.device.type == "cpu" and torch.get_num_threads() > 1:
            self.lanes = Lanes(torch.get_num_threads())
        self._inner = int(model.config.intermediate_size)
        self._fitted = LEAST_TOKENS
        """Tokens of the largest part of a pass that had the memory it needed."""
        self._relieved = 0
        """How often memory was short."""
        self._prefixes: OrderedDict[tuple[int, ...], PrefixKV] = OrderedDict()
        choices = ChoiceGraphs(self.decoder.head) if self.graphs is not None else None
        self._output = Output(self.decoder.head, self._relieve, choices)

    def pace(self, rows: int) -> Pace:
        """Return how far drafts should reach when this many rows share a pass."""
        return tempo.pace(rows, self.decoder.parameters(), self.asynchronous)

    def least(self, rows: int, effort: Effort) -> float:
        """Return the part of free answers that drafts must foretell to pay, with this many rows."""
        if self.loop is None:
            return tempo.LEAST_ON_CPU
        return tempo.least(rows, effort, self.decoder, self.store.capacity)

    def foretells(self, rows: int, effort: Effort) -> bool:
        """Whether free answers that come with their prompts pay, with this many rows."""
        if self.loop is None:
            return True
        return tempo.foretells(rows, effort, self.decoder, self.store.capacity)

    @property
    def rolls(self) -> bool:
        """Whether rows can be rolled: where steps are captured."""
        return self.loop is not None

    def recalls(self, rows: int) -> float:
        """Return the part of rolled answers that earlier texts must foretell to be looked up."""
        return tempo.recalls(rows, self.decoder, self.store.capacity)

    def roll(
        self, rows: Sequence[Rolling], ends: Sequence[int], answers: Answers | None
    ) -> list[Rolled]:
        """Roll rows on for some steps; given answers, drafts are looked up there and in prompts."""
        assert self.loop is not None
        reach = 1 if answers is None else self._reach(bucket(len(rows)))
        with torch.inference_mode():
            return self.loop.run(rows, ends, answers, reach)

    def _reach(self, rows: int) -> int:
        return tempo.reach(rows, self.decoder, self.store.capacity)

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
            self._output.prime(most)
            if self.graphs is not None:
                self.graphs.prime(most, prompt)
            if self.loop is not None:
                self.loop.prime(self._reach)

    def describe(self) -> str:
        """Say how this backend computes, for reports."""
        kind = "shared prefix"
        if isinstance(self.store, RowStore):
            kind = "one ragged kernel" if self.store.mixer is None else "fused steps"
        parts = ", fused parts" if self.decoder.fused else ""
        return f"{kind}{parts}{', graphs' if self.graphs is not None else ''}"

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

        first = indices([0], self.device)
        work(first) if self.lanes is None else self.lanes.map(work, [first])
        return store.prefix(count)

    def run(self, rows: Sequence[Running]) -> Tensor:
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
            parts = self.lanes.map(part, parted) if self.lanes else [*map(part, parted)]
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
            return None if found is None else found[indices(_flat(pieces, asked), self.device)]

        return attempted(replay, self._relieve)

    def _relieve(self) -> None:
        """Give back what is only kept to save time."""
        self._prefixes.clear()
        self._output.clear()
        self._fitted, self._relieved = LEAST_TOKENS, self._relieved + 1
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _spans(self, pieces: Sequence[Piece]) -> list[tuple[int, int]]:
        """Split a batch into consecutive spans: within the budget, and enough for all lanes."""
        total = sum(len(piece.tokens) for piece in pieces)
        budget = self.budget
        if self.device.type == "cuda" and min(total, budget) > self._fitted:
            size = self.decoder.dtype.itemsize  # asking takes time: what fitted once fits again
            budget = min(budget, affordable(self.device, self.decoder.shape, self._inner, size))
        if self.lanes is not None and total >= self.lanes.count * LEAST_SHARE:
            rounds = -(-total // (self.lanes.count * self.budget))
            budget = -(-total // (self.lanes.count * rounds))
        return spans([len(piece.tokens) for piece in pieces], budget)

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
        wanted = None if whole else indices(keep, self.device)
        return self.decoder.forward(chunk, self.store, wanted)

    def release(self, slot: int) -> None:
        """Nothing to do: a slot is overwritten by its next row."""

    def argmax(self, hidden: Tensor, banned: Sequence[int] = ()) -> Said:
        """Ask for the most likely next token of each state, banned tokens aside."""
        with torch.inference_mode():
            return self._output.argmax(hidden, banned)

    def choose(self, hidden: Tensor, allowed: Sequence[tuple[int, ...]]) -> Said:
        """Ask for each state's most likely token among those allowed to it."""
        choose = self._output.among if self.asynchronous else self._output.few
        with torch.inference_mode():
            return choose(hidden, allowed)


def _flat(pieces: Sequence[Piece], asked: Sequence[Sequence[int]]) -> list[int]:
    """Return where the asked offsets lie among all tokens of a batch."""
    firsts = accumulate((len(piece.tokens) for piece in pieces), initial=0)
    return [
        first + offset for first, offsets in zip(firsts, asked, strict=False) for offset in offsets
    ]
