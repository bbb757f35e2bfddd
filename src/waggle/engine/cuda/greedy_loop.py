"""Multi-step greedy decoding on the device: each step reads the tokens of the one before.

For a small model on a GPU a step costs less than a round trip to the host. So rows without drafts
from the host decode on the device alone: one step of all of them is captured with its LM head, its
argmax and its bookkeeping, and replayed many times before anything is read back. A step may also
verify a draft, which an n-gram lookup on the device proposes from the row's own text and from
earlier answers; the tokens that the model's own choices confirm are kept. End tokens and lengths
are tensors; a finished row does not advance until the replays are over. Invariant: the tokens of a
row equal those of single steps, drafts change only speed, and a row never writes outside its own
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from waggle.engine.cuda.graphs import Recorder, Step, bucket
from waggle.engine.model.decoder import Decoder, greedy
from waggle.engine.model.kv_cache import pinned
from waggle.engine.model.kv_rows import Array, RowChunk, RowStore, Spans
from waggle.engine.speculation import GAP, RECENT_TOKENS, Text

STEPS = 16
"""Steps between two reads; more would waste steps on finished rows."""
DRAFT_STEPS = 4
"""The same for steps that verify drafts, with which answers finish sooner."""
ORDER = 8
"""The number of last tokens that a proposal matches; each counts more than all before it."""
BASE, PLACE, TOKEN, ROOM, FORCED, TURN, LEAD, LENGTH, FIELDS = range(9)
"""The fields of a row; `TURN` counts the steps since the last read, in the first row.

`LEAD` is the place where the row's prefix of `LENGTH` tokens may be read: the same for all rows
that share it.
"""


class MultiStepRow(NamedTuple):
    """A row to decode: its last token, not yet run, and how many more may follow."""

    slot: int
    token: int
    place: int
    """Position of that token in the row's cache, prefix included."""
    room: int
    forced: bool
    """Whether end tokens are banned."""


class MultiStepOutput(NamedTuple):
    """The tokens decoded for a row."""

    tokens: list[int]
    """The tokens up to and including an end token, or up to the row's room."""
    steps: int
    drafted: int
    """Draft tokens that were verified in these steps."""


Propose = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]
"""A function like `propose`."""


def propose(texts: Tensor, slots: Tensor, places: Tensor, history: Tensor, count: int) -> Tensor:
    """Return the tokens after the best match of each row's last tokens ([rows, count]).

    Args:
        texts: the tokens of all slots, [slots, L].
        slots: the slot of each row.
        places: the position of each row's last known token.
        history: one text for all rows; of equally good matches the latest is used, and those in
            this text count as later than the row's own.
        count: number of tokens to return; a row with fewer after the match repeats them.
    """
    texts, own = texts[slots], texts.shape[1]
    whole = torch.cat((texts, history.expand(len(texts), -1)), 1)
    columns = torch.arange(ORDER - 1, whole.shape[1], device=texts.device)
    alike = torch.zeros((len(texts), len(columns)), dtype=torch.int64, device=texts.device)
    for back in range(ORDER):
        last = texts.gather(1, (places - back).clamp_min(0).unsqueeze(1))
        there = whole[:, ORDER - 1 - back : whole.shape[1] - back]
        alike.add_(there == last, alpha=1 << (ORDER - 1 - back))
    known = (columns < places.unsqueeze(1)) | (columns >= own)
    latest = torch.where(known, alike * whole.shape[1] + columns, -1)
    found = latest.argmax(1) + ORDER - 1
    # After the row's last token, the text after the match is repeated: a loop continues.
    period = torch.where(found < own, places - found, whole.shape[1]).unsqueeze(1)
    ahead = torch.arange(count, device=texts.device) % period
    at = (found.unsqueeze(1) + 1 + ahead).clamp_max(whole.shape[1] - 1)
    return whole.gather(1, at).clamp_min(0)


@dataclass(slots=True)
class _Captured:
    replay: Step
    inbox: Tensor
    outbox: Tensor
    reads: tuple[Any, ...]
    """Tensors that the captured kernels read by address; they must live as long as the graph."""


class GreedyLoop:
    """Captured greedy steps, by number of rows and of tokens that each row may add per step."""

    def __init__(
        self,
        decoder: Decoder,
        store: RowStore,
        proposer: Propose = propose,
        capture: Callable[[Step], Step] | None = None,
    ) -> None:
        """Hold steps of a decoder; `capture` turns a step into its replay (replaced in tests)."""
        self._decoder = decoder
        self._store = store
        self._ends: tuple[int, ...] = ()
        self._captured: dict[tuple[int, int], _Captured] = {}
        self._record = capture or Recorder()
        self._propose = proposer
        self._history = torch.full((RECENT_TOKENS,), GAP, dtype=torch.int32, device=decoder.device)
        """The text of earlier answers, on the device."""
        self._sent: Text | None = None
        """The host's array that was last copied there."""

    def clear(self) -> None:
        """Drop every captured step, for instance when the caches it reads have moved."""
        self._captured.clear()

    def run(
        self, rows: Sequence[MultiStepRow], ends: Sequence[int], history: Text | None, reach: int
    ) -> list[MultiStepOutput]:
        """Decode rows for several steps, each of which adds up to `reach` tokens to a row.

        `reach` exceeds one only with a history; proposals come from it and from the rows.
        """
        if tuple(ends) != self._ends:
            self.clear()
            self._ends = tuple(ends)
        if history is not None and history is not self._sent:
            sent = pinned(torch.from_numpy(history), self._decoder.device)
            self._history.copy_(sent, non_blocking=True)
            self._sent = history
        size = bucket(len(rows))
        captured = self._captured.get((size, reach))
        if captured is None:
            captured = self._captured[size, reach] = self._capture(size, reach)
        fields = self._fields(rows, size)
        given = pinned(torch.from_numpy(fields), self._decoder.device)
        captured.inbox.copy_(given, non_blocking=True)
        steps = min(STEPS if reach == 1 else DRAFT_STEPS, int(fields[ROOM].max()))
        for _ in range(steps):
            captured.replay()
        return _read(captured.outbox[:steps, : len(rows)].cpu().numpy())

    def _fields(self, rows: Sequence[MultiStepRow], size: int) -> Array:
        """Lay out rows; the remaining ones, up to `size`, are idle in the scratch row."""
        sent = np.zeros((FIELDS, size), dtype=np.int64)
        sent[BASE] = sent[LEAD] = self._store.rows * self._store.capacity
        if rows:
            slot, token, place, room, forced = np.array(rows, dtype=np.int64).T
            given = sent[:, : len(rows)]
            given[BASE] = slot * self._store.capacity
            given[PLACE], given[TOKEN], given[ROOM], given[FORCED] = place, token, room, forced
            given[LEAD], given[LENGTH] = self._store.shared(slot)
        return sent

    def _capture(self, size: int, reach: int) -> _Captured:
        """Capture one step of `size` rows, all of which are idle meanwhile."""
        decoder, store, device = self._decoder, self._store, self._decoder.device
        inbox = torch.from_numpy(self._fields([], size)).to(device)
        outbox = torch.zeros((STEPS, size, reach + 1), dtype=torch.long, device=device)
        ends = torch.tensor(self._ends, dtype=torch.long, device=device)
        queries = torch.arange(0, reach * size + 1, reach, dtype=torch.int32, device=device)

        def step() -> Tensor:
            chunk = self._chunk(inbox, queries, reach)
            hidden = decoder.forward(chunk, store)
            forced = inbox[FORCED].repeat_interleave(reach)
            chosen = self._argmax(hidden, forced, ends).view(size, reach)
            store.keep_tokens(chunk.flat + 1, chosen.clamp_min(0).view(-1))
            kept = _confirmed(chosen, chunk.tokens.view(size, reach), inbox[ROOM], ends)
            found = torch.cat((chosen, kept.tokens.unsqueeze(1)), 1)
            outbox.index_copy_(0, inbox[TURN, :1], found.unsqueeze(0))
            _advance(inbox, chosen, kept)
            return chosen

        replay = self._record(step)
        inbox.zero_()
        reads = ends, queries, self._history, decoder.tables, store.tensors()
        return _Captured(replay, inbox, outbox, reads)

    def _chunk(self, inbox: Tensor, queries: Tensor, reach: int) -> RowChunk:
        """Lay out each row's last token, and the draft after it."""
        base, place = inbox[BASE], inbox[PLACE]
        tokens = inbox[TOKEN]
        positions, flat = place, base + place
        self._store.keep_tokens(flat, tokens)
        if reach > 1:
            slots = base // self._store.capacity
            draft = self._propose(self._store.texts, slots, place, self._history, reach - 1)
            tokens = torch.cat((tokens.unsqueeze(1), draft), 1).view(-1)
            ahead = torch.arange(reach, device=place.device)
            positions, flat = ((start.unsqueeze(1) + ahead).view(-1) for start in (place, flat))
        return RowChunk(
            tokens=tokens,
            positions=positions,
            flat=flat,
            rows=Spans(
                starts=queries,
                bases=torch.cat((base, base[-1:])).int(),
                used=(place + reach).int(),
                leads=inbox[LEAD].int(),
                lengths=inbox[LENGTH].int(),
            ),
            single=reach == 1,
        )

    def _argmax(self, hidden: Tensor, forced: Tensor, ends: Tensor) -> Tensor:
        """Return each state's most likely token, with end tokens banned if a length is forced."""
        logits = self._decoder.head(hidden)
        if self._ends:
            closing = logits.index_select(1, ends)
            closing.masked_fill_(forced.bool().unsqueeze(1), float("-inf"))
            logits.index_copy_(1, ends, closing)
        return greedy(logits)


class _Confirmed(NamedTuple):
    """The number of chosen tokens that are kept, and whether the last one is an end token."""

    tokens: Tensor
    ended: Tensor


def _confirmed(chosen: Tensor, ran: Tensor, room: Tensor, ends: Tensor) -> _Confirmed:
    """Count the chosen tokens after confirmed ones, up to an end token or the row's room."""
    right = (chosen[:, :-1] == ran[:, 1:]).cumprod(1).sum(1)
    closing = (chosen.unsqueeze(2) == ends).any(2)
    before = (closing.cumsum(1) == 0).sum(1)
    count = torch.minimum(torch.minimum(right, before) + 1, room)
    return _Confirmed(count, count > before)


def _advance(inbox: Tensor, chosen: Tensor, kept: _Confirmed) -> None:
    """Advance every row that has room by its kept tokens; after an end token its room is zero."""
    going = inbox[ROOM] > 0
    last = chosen.gather(1, (kept.tokens - 1).clamp_min(0).unsqueeze(1)).squeeze(1)
    inbox[PLACE] += kept.tokens
    inbox[TOKEN] = torch.where(going, last.clamp_min(0), inbox[TOKEN])
    inbox[ROOM] = torch.where(kept.ended, 0, inbox[ROOM] - kept.tokens)
    inbox[TURN] += 1


def _read(found: Array) -> list[MultiStepOutput]:
    """Return the tokens decoded for each row; the last number of each step is its token count."""
    chosen, counts = found[:, :, :-1].swapaxes(0, 1), found[:, :, -1].T
    reach = chosen.shape[2]
    kept = chosen[np.arange(reach) < counts[:, :, None]]
    steps: list[int] = (counts > 0).sum(1).tolist()
    parts = np.split(kept, counts.sum(1).cumsum()[:-1])
    return [
        MultiStepOutput(tokens.tolist(), count, (reach - 1) * count)
        for tokens, count in zip(parts, steps, strict=True)
    ]
