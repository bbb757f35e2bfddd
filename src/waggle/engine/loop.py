"""Greedy decoding that stays on the device: what a step says is what the next one reads.

For a small model on a GPU a step costs less than asking the host what to do next. So rows that
draft nothing are rolled: one step of all of them is captured with its output layer, its argmax and
its bookkeeping, and replayed many times before anything is read back. Ends and lengths are tensors;
a row that is done goes on without moving until the stretch is over. Invariant: the tokens of a row
are those of single steps, and a row never writes outside its own cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from waggle.engine.decoder import Decoder
from waggle.engine.graphs import Recorder, Step, bucket
from waggle.engine.mixing import Spans
from waggle.engine.passes import Rolling
from waggle.engine.row_store import Array, RowChunk, RowStore
from waggle.engine.stores import lying

STRETCH = 16
"""Steps between two looks at what was said; more waste steps of rows that are done."""
BASE, PLACE, TOKEN, ROOM, FORCED, TURN, LEAD, LENGTH, FIELDS = range(9)
"""What is known of a lane; `TURN` counts the steps of the stretch, in the first lane.

`LEAD` is where the row's prefix of `LENGTH` tokens may be read: one place for all that share it.
"""


@dataclass(slots=True)
class _Stretch:
    replay: Step
    inbox: Tensor
    outbox: Tensor
    reads: tuple[Any, ...]
    """What the recorded kernels read by address: it must live as long as the graph."""


class GreedyLoop:
    """Captured greedy steps, by number of rows."""

    def __init__(
        self,
        decoder: Decoder,
        store: RowStore,
        capture: Callable[[Step], Step] | None = None,
    ) -> None:
        """Hold steps of a decoder; `capture` turns a step into its replay (a test's seam)."""
        self._decoder = decoder
        self._store = store
        self._ends: tuple[int, ...] = ()
        self._stretches: dict[int, _Stretch] = {}
        self._record = capture or Recorder()

    def clear(self) -> None:
        """Drop every captured step (the caches they point into are gone)."""
        self._stretches.clear()

    def run(self, rows: Sequence[Rolling], ends: Sequence[int]) -> Array:
        """Roll rows on; return what each said, step by step ([rows, steps]).

        What a row says behind an end token or beyond its room is noise.
        """
        if tuple(ends) != self._ends:
            self.clear()
            self._ends = tuple(ends)
        size = bucket(len(rows))
        stretch = self._stretches.get(size)
        if stretch is None:
            stretch = self._stretches[size] = self._capture(size)
        sent = self._lanes(rows, size)
        given = lying(torch.from_numpy(sent), self._decoder.device)
        stretch.inbox.copy_(given, non_blocking=True)
        steps = min(STRETCH, int(sent[ROOM].max()))
        for _ in range(steps):
            stretch.replay()
        said: Array = stretch.outbox[:steps, : len(rows)].cpu().numpy()
        return said.T

    def _lanes(self, rows: Sequence[Rolling], size: int) -> Array:
        """Lay rows out; lanes without a row stand still in the scratch row."""
        sent = np.zeros((FIELDS, size), dtype=np.int64)
        sent[BASE] = sent[LEAD] = self._store.rows * self._store.capacity
        if rows:
            slot, token, place, room, forced = np.array(rows, dtype=np.int64).T
            given = sent[:, : len(rows)]
            given[BASE] = slot * self._store.capacity
            given[PLACE], given[TOKEN], given[ROOM], given[FORCED] = place, token, room, forced
            given[LEAD], given[LENGTH] = self._store.shared(slot)
        return sent

    def _capture(self, size: int) -> _Stretch:
        """Record one step of this many lanes; while that is done all of them stand still."""
        decoder, store, device = self._decoder, self._store, self._decoder.device
        inbox = torch.from_numpy(self._lanes([], size)).to(device)
        outbox = torch.zeros((STRETCH, size), dtype=torch.long, device=device)
        ends = torch.tensor(self._ends, dtype=torch.long, device=device)
        queries = torch.arange(size + 1, dtype=torch.int32, device=device)

        def step() -> Tensor:
            hidden = decoder.forward(self._chunk(inbox, queries), store)
            said = self._say(hidden, inbox[FORCED], ends)
            outbox.index_copy_(0, inbox[TURN, :1], said.unsqueeze(0))
            _move(inbox, said, ends)
            return said

        replay = self._record(step)
        inbox.zero_()
        return _Stretch(replay, inbox, outbox, (ends, queries, decoder.tables, store.tensors()))

    def _chunk(self, inbox: Tensor, queries: Tensor) -> RowChunk:
        base, place = inbox[BASE], inbox[PLACE]
        return RowChunk(
            tokens=inbox[TOKEN],
            angles=place,
            flat=base + place,
            rows=Spans(
                starts=queries,
                bases=torch.cat((base, base[-1:])).int(),
                used=(place + 1).int(),
                leads=inbox[LEAD].int(),
                lengths=inbox[LENGTH].int(),
            ),
            longest=(1, self._store.capacity),
        )

    def _say(self, hidden: Tensor, forced: Tensor, ends: Tensor) -> Tensor:
        """Return the most likely token of each lane, ends banned where a length is forced."""
        logits = self._decoder.head(hidden)
        if self._ends:
            closing = logits.index_select(1, ends)
            closing.masked_fill_(forced.bool().unsqueeze(1), float("-inf"))
            logits.index_copy_(1, ends, closing)
        return likeliest(logits)


def likeliest(logits: Tensor) -> Tensor:
    """Return the most likely token of each row, or -1 where there is no telling.

    Logits that are no numbers would make any token as good as another, without a word.
    """
    best = logits.max(-1)
    return best.indices.masked_fill(~best.values.isfinite(), -1)


def _move(inbox: Tensor, said: Tensor, ends: Tensor) -> None:
    """Let every lane that has room take its token; one that has said an end has no more room."""
    going = inbox[ROOM] > 0
    ended = (said.unsqueeze(1) == ends).any(1)
    inbox[PLACE] += going
    inbox[TOKEN] = torch.where(going, said.clamp_min(0), inbox[TOKEN])
    inbox[ROOM] = torch.where(going & ~ended, inbox[ROOM] - 1, 0)
    inbox[TURN] += 1
