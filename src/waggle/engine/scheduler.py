"""The scheduler: which sequences wait, which have a KV slot, and which share a pass.

Sequences enter free KV slots in submission order while there is memory; one that finishes gives its
slot to the next (continuous batching). On an asynchronous device two batches are in flight: while
one is computed, the host reads the other and launches it again. The sequences on the host at the
same moment share a batch, so admission determines the batch sizes.
Invariant: a slot holds at most one sequence, and a sequence is in at most one batch.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from waggle.engine.backends.base import Backend
from waggle.engine.request import Completion
from waggle.engine.sequence import ConstrainedSequence, TokenSequence

PORTIONS = 4
"""The number of portions in which sequences enter a device: while one runs, the host prepares the
next."""
MIN_BATCH = 32
"""The smallest worthwhile batch: sending prompts to a device takes as long as running a few."""
ENTRIES = 8
"""The number of passes over which all slots are filled when sequences enter with every pass."""


class Submission:
    """The completions one caller waits for."""

    def __init__(self, count: int) -> None:
        self.completions: list[Completion | None] = [None] * count
        self.error: BaseException | None = None
        self._missing = count

    @property
    def done(self) -> bool:
        """Whether all completions are stored or an error has ended the batch."""
        return self.error is not None or self._missing == 0

    def put(self, index: int, completion: Completion) -> None:
        """Store one completion."""
        self.completions[index] = completion
        self._missing -= 1

    def result(self) -> list[Completion]:
        """Return all completions, or raise the error of the batch."""
        if self.error is not None:
            raise self.error
        return [completion for completion in self.completions if completion is not None]


class _Entry(NamedTuple):
    """A sequence and the destination of its completion."""

    sequence: TokenSequence
    submission: Submission
    place: int


class Scheduler:
    """The queue and the KV slots of one engine."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._limit = slots
        """Slots that may be taken at once; fewer after an out-of-memory error."""
        self._alone = False
        """Whether lack of memory reduced the limit to one slot and nothing has finished since."""
        self._was_full = False
        """Whether a sequence has had to wait for a slot after all slots were last free."""
        self._waiting: deque[_Entry] = deque()
        self._running: list[_Entry] = []
        self._free = sorted(range(slots), reverse=True)
        self._last_prefix = [0] * slots
        """The `id` of each slot's last prefix; a sequence with that prefix need not copy it."""
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        """The number of free slots."""
        return len(self._free)

    @property
    def idle(self) -> bool:
        """Whether no sequence runs or waits."""
        return not (self._running or self._waiting)

    def submit(self, sequences: Sequence[TokenSequence]) -> Submission:
        """Queue the sequences of one caller."""
        _number_prefixes(sequences)
        submission = Submission(len(sequences))
        with self._lock:
            self._waiting.extend(_Entry(s, submission, i) for i, s in enumerate(sequences))
        return submission

    def on_host(self) -> list[TokenSequence]:
        """Return the running sequences that are in no batch, grouped by prefix."""
        found = [entry.sequence for entry in self._running if not entry.sequence.in_flight]
        first = {sequence.prefix_group: sequence.slot for sequence in reversed(found)}
        return sorted(found, key=lambda s: (first[s.prefix_group], s.slot))

    def upcoming(self, backend: Backend) -> list[TokenSequence]:
        """Return the sequences that will enter next."""
        with self._lock:
            return [entry.sequence for entry in islice(self._waiting, self._portion(backend))]

    def admit(self, backend: Backend) -> None:
        """Admit waiting sequences, in order, while there are slots and memory for them."""
        quota = self._quota(backend)
        with self._lock:
            if self._waiting and not self._running:
                backend.shrink(max(entry.sequence.prompt.positions for entry in self._waiting))
            while quota > 0 and self._has_room and self._enter(self._waiting[0], backend):
                self._waiting.popleft()
                quota -= 1
            self._was_full = self._was_full or (quota > 0 and bool(self._waiting))

    @property
    def _has_room(self) -> bool:
        return bool(self._waiting and self._free) and len(self._running) < self._limit

    def _portion(self, backend: Backend) -> int:
        """Return how many sequences enter together: up to all slots if nothing runs meanwhile."""
        if not backend.asynchronous or self.slots < MIN_BATCH:
            return self.slots
        return self.slots // max(2, min(PORTIONS, self.slots // MIN_BATCH))

    def _quota(self, backend: Backend) -> int:
        """Return how many sequences may enter before the next pass.

        A constrained sequence takes many passes, each laid out by the host, so the quota keeps the
        two batches equally large. Others take few, or decode many tokens without the host.
        """
        if not backend.asynchronous or not self._waiting:
            return self._portion(backend)
        constrained = isinstance(self._waiting[0].sequence, ConstrainedSequence)
        if constrained and self.slots >= 2 * MIN_BATCH:
            return self._quota_of_half()
        return self._quota_together(self._portion(backend))

    def _quota_of_half(self) -> int:
        """Return how many sequences may join those on the host while the others are in flight.

        The batch on the host gets half of the slots; otherwise the device would idle while it is
        read. Few enter per pass, since those that enter together leave together.
        """
        if len(self._running) + len(self._waiting) <= MIN_BATCH:
            return MIN_BATCH
        here = sum(not entry.sequence.in_flight for entry in self._running)
        half = max(1, min(self.slots, self._limit) // 2)
        return min(max(MIN_BATCH // 2, self.slots // ENTRIES), half - here)

    def _quota_together(self, portion: int) -> int:
        """Return how many sequences may enter if the device runs them more efficiently together.

        The first portions are small so that the device starts early. After all slots have been
        taken, sequences enter only as a whole portion or as all that wait.
        """
        quota = min(portion, max(MIN_BATCH, 2 * len(self._running)))
        self._was_full = self._was_full and bool(self._running)
        wait = self._was_full and len(self._free) < min(quota, len(self._waiting))
        return 0 if wait else quota

    def _enter(self, entry: _Entry, backend: Backend) -> bool:
        """Give a sequence a slot and memory; return whether there was enough of both."""
        prompt, at = entry.sequence.prompt, len(self._free) - 1
        size = len(prompt.prefix), len(prompt.tail) + prompt.max_new_tokens
        slots = backend.room(*size)
        if slots < self.slots:
            highest = max((e.sequence.slot for e in self._running), default=-1)
            if max(highest, self._free[at]) >= slots:
                return False
        else:
            mine, last = id(prompt.prefix), self._last_prefix
            same = (i for i in range(at, -1, -1) if last[self._free[i]] == mine)
            at = next(same, at)
        backend.reserve(*size)  # first, since it may fail
        slot = self._free.pop(at)
        self._last_prefix[slot] = id(prompt.prefix)
        entry.sequence.slot = slot
        self._running.append(entry)
        return True

    def retire(self, backend: Backend, complete: Callable[[TokenSequence], Completion]) -> None:
        """Remove finished sequences and hand their completions to the callers."""
        if not any(entry.sequence.finish for entry in self._running):
            return
        staying = []
        for entry in self._running:
            if entry.sequence.finish:
                entry.submission.put(entry.place, complete(entry.sequence))
                self._release(entry.sequence, backend)
            else:
                staying.append(entry)
        self._limit = min(self.slots, self._limit + len(self._running) - len(staying))
        self._alone = False
        self._running = staying
        self._free.sort(reverse=True)

    def _release(self, sequence: TokenSequence, backend: Backend) -> None:
        self._free.append(sequence.slot)
        backend.release(sequence.slot)
        sequence.slot = -1

    def retry(self, backend: Backend, renew: Callable[[TokenSequence], TokenSequence]) -> bool:
        """Requeue all running sequences for half the slots after an out-of-memory error.

        Return whether that may help: False if a sequence was already running alone.
        """
        if self._alone:
            return False
        self._limit = max(1, min(self._limit, len(self._running)) // 2)
        self._alone = self._limit == 1
        with self._lock:
            for entry in reversed(self._running):
                self._release(entry.sequence, backend)
                self._waiting.appendleft(entry._replace(sequence=renew(entry.sequence)))
            self._running.clear()
            self._free.sort(reverse=True)
        return True

    def abort(self, backend: Backend, error: BaseException) -> None:
        """Drop all sequences and pass the error to every caller."""
        with self._lock:
            for entry in (*self._running, *self._waiting):
                entry.submission.error = error
                if entry.sequence.slot >= 0:
                    self._release(entry.sequence, backend)
            self._running.clear()
            self._waiting.clear()
            self._limit, self._alone = self.slots, False
            self._free.sort(reverse=True)


def _number_prefixes(sequences: Iterable[TokenSequence]) -> None:
    """Number sequences by prefix, so that the long prefixes are compared only here.

    Sequences of two submissions may have the same number by chance; that affects only their order
    in a batch.
    """
    numbers: dict[tuple[int, ...], int] = {}
    known: dict[int, int] = {}
    for sequence in sequences:
        prefix = sequence.prompt.prefix
        if id(prefix) not in known:  # usually the same object
            known[id(prefix)] = numbers.setdefault(prefix, len(numbers))
        sequence.prefix_group = known[id(prefix)]
