"""Greedy decoding that stays on the device: what a step says is what the next one reads.

For a small model on a GPU a step costs less than asking the host what to do next. So rows that the
host drafts nothing for are rolled: one step of all of them is captured with its output layer, its
argmax and its bookkeeping, and replayed many times before anything is read back. A step may try
more tokens of a row than its last one: those that its text, or that of earlier answers, has where
it is most alike (see `cuda.recall`); what the model's own choices confirm is kept. Ends
and lengths are tensors; a row that is done goes on without moving until the stretch is over.
Invariant: the tokens of a row are those of single steps, and a row never writes outside its own
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from waggle.engine.answers import Answers, Text
from waggle.engine.backends.base import Rolled, Rolling
from waggle.engine.cuda.graphs import Recorder, Step, bucket, buckets
from waggle.engine.cuda.recall import Recalled, recalled
from waggle.engine.model.decoder import Decoder
from waggle.engine.model.kv_cache import lying
from waggle.engine.model.kv_rows import Array, RowChunk, RowStore
from waggle.engine.model.mixing import Spans

STRETCH = 16
"""Steps between two looks at what was said; more waste steps of rows that are done."""
TRYING = 4
"""The same where steps try several tokens: answers are over sooner."""
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
    """Captured greedy steps, by number of rows and of tokens that each may say at a time."""

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
        self._stretches: dict[tuple[int, int], _Stretch] = {}
        self._record = capture or Recorder()
        kernels = decoder.kernels
        self._recalled: Recalled = recalled if kernels is None else kernels.recalled
        self._answers: Tensor | None = None
        """What earlier answers said, where steps read it, and as it came from the host."""
        self._told: Text | None = None

    def clear(self) -> None:
        """Drop every captured step (the caches they point into are gone)."""
        self._stretches.clear()

    def run(
        self, rows: Sequence[Rolling], ends: Sequence[int], answers: Answers | None, reach: int
    ) -> list[Rolled]:
        """Roll rows on for some steps, each of which may say as many tokens of a row as it reaches.

        More than one only where there are answers to look them up in.
        """
        if tuple(ends) != self._ends:
            self.clear()
            self._ends = tuple(ends)
        if answers is not None:
            self._tell(answers.text())
        size = bucket(len(rows))
        stretch = self._stretches.get((size, reach))
        if stretch is None:
            stretch = self._stretches[size, reach] = self._capture(size, reach)
        sent = self._lanes(rows, size)
        given = lying(torch.from_numpy(sent), self._decoder.device)
        stretch.inbox.copy_(given, non_blocking=True)
        steps = min(STRETCH if reach == 1 else TRYING, int(sent[ROOM].max()))
        for _ in range(steps):
            stretch.replay()
        return _read(stretch.outbox[:steps, : len(rows)].cpu().numpy())

    def prime(self, reaches: Callable[[int], int]) -> None:
        """Capture steps of any number of rows now, which end as the last ones did."""
        if self._told is None:
            self._tell(Answers().text())
        for size in buckets(1, bucket(self._store.rows)):
            for reach in {1, reaches(size)}:
                if (size, reach) not in self._stretches:
                    self._stretches[size, reach] = self._capture(size, reach)

    def _tell(self, text: Text) -> None:
        """Put earlier answers where steps read them, unless they are there."""
        if text is self._told:
            return
        given = lying(torch.from_numpy(text), self._decoder.device)
        if self._answers is None:
            self._answers = torch.empty_like(given, device=self._decoder.device)
        self._answers.copy_(given, non_blocking=True)
        self._told = text

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

    def _capture(self, size: int, reach: int) -> _Stretch:
        """Record one step of this many lanes; while that is done all of them stand still."""
        decoder, store, device = self._decoder, self._store, self._decoder.device
        inbox = torch.from_numpy(self._lanes([], size)).to(device)
        outbox = torch.zeros((STRETCH, size, reach + 1), dtype=torch.long, device=device)
        ends = torch.tensor(self._ends, dtype=torch.long, device=device)
        queries = torch.arange(0, reach * size + 1, reach, dtype=torch.int32, device=device)

        def step() -> Tensor:
            chunk = self._chunk(inbox, queries, reach)
            hidden = decoder.forward(chunk, store)
            said = self._say(hidden, inbox[FORCED].repeat_interleave(reach), ends).view(size, reach)
            store.note(chunk.flat + 1, said.clamp_min(0).view(-1))
            kept = _kept(said, chunk.tokens.view(size, reach), inbox[ROOM], ends)
            told = torch.cat((said, kept.tokens.unsqueeze(1)), 1)
            outbox.index_copy_(0, inbox[TURN, :1], told.unsqueeze(0))
            _move(inbox, said, kept)
            return said

        replay = self._record(step)
        inbox.zero_()
        reads = ends, queries, self._answers, decoder.tables, store.tensors()
        return _Stretch(replay, inbox, outbox, reads)

    def _chunk(self, inbox: Tensor, queries: Tensor, reach: int) -> RowChunk:
        """Lay out each lane's last token, and what may follow it."""
        base, place = inbox[BASE], inbox[PLACE]
        tokens = inbox[TOKEN]
        angles, flat = place, base + place
        self._store.note(flat, tokens)
        if reach > 1:
            assert self._answers is not None
            slots = base // self._store.capacity
            tried = self._recalled(self._store.texts, slots, place, self._answers, reach - 1)
            tokens = torch.cat((tokens.unsqueeze(1), tried), 1).view(-1)
            ahead = torch.arange(reach, device=place.device)
            angles, flat = ((start.unsqueeze(1) + ahead).view(-1) for start in (place, flat))
        return RowChunk(
            tokens=tokens,
            angles=angles,
            flat=flat,
            rows=Spans(
                starts=queries,
                bases=torch.cat((base, base[-1:])).int(),
                used=(place + reach).int(),
                leads=inbox[LEAD].int(),
                lengths=inbox[LENGTH].int(),
            ),
            longest=(reach, self._store.capacity),
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


class _Kept(NamedTuple):
    """How many of the tokens that lanes said count, and whether the last of them is an end."""

    tokens: Tensor
    ended: Tensor


def _kept(said: Tensor, ran: Tensor, room: Tensor, ends: Tensor) -> _Kept:
    """Keep what was said behind tokens that the model had said, too, up to an end or the room."""
    right = (said[:, :-1] == ran[:, 1:]).cumprod(1).sum(1)
    closing = (said.unsqueeze(2) == ends).any(2)
    before = (closing.cumsum(1) == 0).sum(1)
    count = torch.minimum(torch.minimum(right, before) + 1, room)
    return _Kept(count, count > before)


def _move(inbox: Tensor, said: Tensor, kept: _Kept) -> None:
    """Let every lane that has room take its tokens; one that has said an end has no more room."""
    going = inbox[ROOM] > 0
    last = said.gather(1, (kept.tokens - 1).clamp_min(0).unsqueeze(1)).squeeze(1)
    inbox[PLACE] += kept.tokens
    inbox[TOKEN] = torch.where(going, last.clamp_min(0), inbox[TOKEN])
    inbox[ROOM] = torch.where(kept.ended, 0, inbox[ROOM] - kept.tokens)
    inbox[TURN] += 1


def _read(told: Array) -> list[Rolled]:
    """Return what rows said: of each step as many tokens as its last number says."""
    said, counts = told[:, :, :-1].swapaxes(0, 1), told[:, :, -1].T
    reach = said.shape[2]
    kept = said[np.arange(reach) < counts[:, :, None]]
    steps: list[int] = (counts > 0).sum(1).tolist()
    parts = np.split(kept, counts.sum(1).cumsum()[:-1])
    return [
        Rolled(tokens.tolist(), count, (reach - 1) * count)
        for tokens, count in zip(parts, steps, strict=True)
    ]
