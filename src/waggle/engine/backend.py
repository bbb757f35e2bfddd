"""Where the lean decoder, its caches and its prefixes meet batches of rows.

Shared prefixes are run once and kept; each row owns a cache slot for its tail and answer. On CUDA
small steps replay captured graphs over static shapes (see `waggle.engine.graphs`); large ones and
every CPU step run packed, without padding. Invariant: what a row reads was written by itself or by
its prefix.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.engine.attention import visibility
from waggle.engine.decoder import Chunk, Decoder, PrefixKV

SLACK = 32
"""Cache positions kept free after an answer, for drafts and padding."""
MAX_PREFIXES = 8


class LeanBackend:
    """Runs rows of tokens through a decoder with prefix reuse."""

    speculates = True

    def __init__(self, model: Any, max_rows: int, graphs: bool = True) -> None:
        self.decoder = Decoder(model)
        self.max_rows = max_rows
        self.device = self.decoder.device
        self._cache: list[tuple[Tensor, Tensor]] = []
        self._capacity = 0
        self._prefixes: OrderedDict[tuple[int, ...], PrefixKV] = OrderedDict()
        self._graphs: Any = None
        if graphs and self.device.type == "cuda":
            from waggle.engine.graphs import StepGraphs

            self._graphs = StepGraphs(self.decoder)
        self.prefill_budget = 384 if self.device.type == "cpu" else 65_536

    def reserve(self, prefix: int, own: int) -> None:
        """Make room for rows of this many own positions after this long a prefix."""
        capacity = max(self._capacity, -(-(own + SLACK) // 128) * 128)
        self.decoder.reserve(prefix + capacity)
        if capacity == self._capacity:
            return
        self._capacity = capacity
        old, self._cache = self._cache, self.decoder.new_cache(self.max_rows, self._capacity)
        for (keys, values), (old_keys, old_values) in zip(self._cache, old, strict=False):
            keys[:, :, : old_keys.shape[2]] = old_keys
            values[:, :, : old_values.shape[2]] = old_values
        if self._graphs is not None:
            self._graphs.clear()

    def prefix(self, tokens: tuple[int, ...]) -> PrefixKV:
        """Return the keys and values of a prefix, running it only if they are not kept."""
        known = self._prefixes.get(tokens)
        if known is None:
            known = self._prefixes[tokens] = self._run_prefix(tokens)
            while len(self._prefixes) > MAX_PREFIXES:
                _, dropped = self._prefixes.popitem(last=False)
                if self._graphs is not None:
                    self._graphs.forget(dropped)
        self._prefixes.move_to_end(tokens)
        return known

    def _run_prefix(self, tokens: tuple[int, ...]) -> PrefixKV:
        empty = PrefixKV([], [], 0)
        if not tokens:
            return empty
        self.decoder.reserve(len(tokens))
        cache = self.decoder.new_cache(1, len(tokens))
        self.decoder.forward(self._chunk([0], [tokens], [0]), cache, empty, self._index([0]))
        keys = [pair[0][0].contiguous() for pair in cache]
        return PrefixKV(keys, [pair[1][0].contiguous() for pair in cache], len(tokens))

    def run(
        self,
        slots: Sequence[int],
        chunks: Sequence[Sequence[int]],
        starts: Sequence[int],
        wanted: Sequence[int],
        prefix: tuple[int, ...],
    ) -> Tensor:
        """Run one chunk per row; return hidden states of the last `wanted` tokens of each row."""
        kept = self.prefix(prefix)
        with torch.inference_mode():
            if self._graphs is not None and self._graphs.fits(slots, chunks, starts):
                replayed: Tensor = self._graphs.run(
                    slots, chunks, starts, wanted, kept, self._cache
                )
                return replayed
            parts = [
                self._run_packed(group, slots, chunks, starts, wanted, kept)
                for group in self._groups(chunks, starts)
            ]
            return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _groups(self, chunks: Sequence[Sequence[int]], starts: Sequence[int]) -> list[list[int]]:
        """Split a batch into consecutive groups that fill the prefill budget."""
        groups: list[list[int]] = []
        filled = 0
        for row, chunk in enumerate(chunks):
            mixed = bool(groups) and (starts[groups[-1][0]] == 0) != (starts[row] == 0)
            if not groups or mixed or filled + len(chunk) > self.prefill_budget:
                groups.append([])
                filled = 0
            groups[-1].append(row)
            filled += len(chunk)
        return groups

    def _run_packed(
        self,
        group: list[int],
        slots: Sequence[int],
        chunks: Sequence[Sequence[int]],
        starts: Sequence[int],
        wanted: Sequence[int],
        prefix: PrefixKV,
    ) -> Tensor:
        keep: list[int] = []
        filled = 0
        for row in group:
            filled += len(chunks[row])
            keep.extend(range(filled - wanted[row], filled))
        chunk = self._chunk(
            [slots[row] for row in group],
            [chunks[row] for row in group],
            [starts[row] for row in group],
        )
        whole = len(keep) == filled
        return self.decoder.forward(
            chunk, self._cache, prefix, None if whole else self._index(keep)
        )

    def _chunk(self, slots: list[int], chunks: Sequence[Sequence[int]], starts: list[int]) -> Chunk:
        lengths = self._index([len(chunk) for chunk in chunks])
        rows, steps = len(chunks), max(map(len, chunks))
        ragged = min(map(len, chunks)) != steps
        row_of = torch.arange(rows, device=self.device).repeat_interleave(
            lengths, output_size=sum(map(len, chunks))
        )
        first = lengths.cumsum(0) - lengths
        step_of = torch.arange(row_of.shape[0], device=self.device) - first[row_of]
        chunk = Chunk(
            tokens=self._index(list(itertools.chain.from_iterable(chunks))),
            slots=self._index(slots)[row_of],
            positions=self._index(starts)[row_of] + step_of,
            rows=rows,
            steps=steps,
            grid=(row_of, step_of) if ragged else None,
            fresh=not any(starts),
        )
        if not chunk.fresh:
            self._look_back(chunk, slots, starts)
        return chunk

    def _look_back(self, chunk: Chunk, slots: list[int], starts: list[int]) -> None:
        # Fused kernels want the span in multiples of eight; the mask hides the surplus.
        chunk.span = -(-(max(starts) + chunk.steps) // 8) * 8
        grid = self._index(starts)[:, None] + torch.arange(chunk.steps, device=self.device)
        groups = self.decoder.shape.groups
        chunk.mask = visibility(grid, chunk.span, groups, self.decoder.dtype)
        if slots != list(range(len(slots))):
            chunk.cache_rows = self._index(slots)

    def release(self, slot: int) -> None:
        """Nothing to do: a slot is overwritten by its next row."""

    def _index(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.device)

    def argmax(self, hidden: Tensor, banned: Sequence[int] = ()) -> list[int]:
        """Return the most likely next token of each state, banned tokens aside."""
        with torch.inference_mode():
            logits = self.decoder.head(hidden)
            if banned:
                logits[:, list(banned)] = float("-inf")
            best: list[int] = logits.argmax(-1).tolist()
            return best

    def choose(self, hidden: Tensor, allowed: Sequence[tuple[int, ...]]) -> list[int]:
        """Return each state's most likely token among those allowed to it.

        Only the offered rows of the output matrix are multiplied.
        """
        offered = sorted({token for tokens in allowed for token in tokens})
        place = {token: index for index, token in enumerate(offered)}
        closed = torch.ones(len(allowed), len(offered), dtype=torch.bool)
        rows = [row for row, tokens in enumerate(allowed) for _ in tokens]
        columns = [place[token] for tokens in allowed for token in tokens]
        closed[rows, columns] = False
        with torch.inference_mode():
            logits = F.linear(hidden, self.decoder.head.weight[self._index(offered)])
            logits = logits.masked_fill(closed.to(self.device), float("-inf"))
            return [offered[index] for index in logits.argmax(-1).tolist()]
