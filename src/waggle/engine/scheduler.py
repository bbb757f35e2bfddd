"""The scheduler: which sequences wait, which have a KV slot, and which share a pass.

Sequences enter free KV slots in the order of their submission, as far as there is memory; one that
leaves gives its slot to the next (continuous batching). Where a device works asynchronously, two
batches are in flight: while one is computed, the host reads the other and sends it off again. The
sequences on the host at one time share a batch, so the admission decides how large batches are.
Invariant: a slot has one sequence at most, and a sequence is in one batch at most.
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
"""Parts in which sequences enter a device: while one is run, the host prepares the next."""
MIN_BATCH = 32
"""Sequences that are worth a batch: sending prompts off takes as long as running a few."""
ENTRIES = 8
"""Passes over which all slots are filled, where sequences enter with every pass."""


class Submission:
    """The completions one caller waits for."""

    def __init__(self, count: int) -> None:
        self.completions: list[Completion | None] = [None] * count
        self.error: BaseException | None = None
        self._missing = count

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
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
    """A sequence, and where its completion goes."""

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
        """Whether one sequence was let in alone for want of memory and has not finished since."""
        self._was_full = False
        """Whether a sequence had to wait for a slot since all of them were free."""
        self._waiting: deque[_Entry] = deque()
        self._running: list[_Entry] = []
        self._free = sorted(range(slots), reverse=True)
        self._last_prefix = [0] * slots
        """Which prefix a slot had last, by identity: the next sequence need not copy it."""
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
        """Return the running sequences that are in no batch, those of one prefix side by side."""
        found = [entry.sequence for entry in self._running if not entry.sequence.in_flight]
        first = {sequence.prefix_group: sequence.slot for sequence in reversed(found)}
        return sorted(found, key=lambda s: (first[s.prefix_group], s.slot))

    def upcoming(self, backend: Backend) -> list[TokenSequence]:
        """Return the sequences that will enter next."""
        with self._lock:
            return [entry.sequence for entry in islice(self._waiting, self._portion(backend))]

    def admit(self, backend: Backend) -> None:
        """Let waiting sequences enter, in order, as far as there are slots and memory for them."""
        quota = self._quota(backend)
        with self._lock:
            while quota > 0 and self._has_room and self._enter(self._waiting[0], backend):
                self._waiting.popleft()
                quota -= 1
            self._was_full = self._was_full or (quota > 0 and bool(self._waiting))

    @property
    def _has_room(self) -> bool:
        return bool(self._waiting and self._free) and len(self._running) < self._limit

    def _portion(self, backend: Backend) -> int:
        """Return how many sequences enter at once: all, where nothing runs meanwhile."""
        if not backend.asynchronous or self.slots < MIN_BATCH:
            return self.slots
        return self.slots // max(2, min(PORTIONS, self.slots // MIN_BATCH))

    def _quota(self, backend: Backend) -> int:
        """Return how many sequences may enter before the next pass.

        A constrained sequence takes many passes, each laid out by the host: as many enter as keep
        two batches of one size. Others take few, or decode many tokens without the host.
        """
        if not backend.asynchronous or not self._waiting:
            return self._portion(backend)
        constrained = isinstance(self._waiting[0].sequence, ConstrainedSequence)
        if constrained and self.slots >= 2 * MIN_BATCH:
            return self._quota_of_half()
        return self._quota_together(self._portion(backend))

    def _quota_of_half(self) -> int:
        """Return how many sequences may join those on the host, the others being in flight.

        Half of the slots are theirs, or a device would stand still while they are read. Few enter
        at a time, since those that enter together leave together: every pass shall have some.
        """
        if len(self._running) + len(self._waiting) <= MIN_BATCH:
            return MIN_BATCH
        here = sum(not entry.sequence.in_flight for entry in self._running)
        half = max(1, min(self.slots, self._limit) // 2)
        return min(max(MIN_BATCH // 2, self.slots // ENTRIES), half - here)

    def _quota_together(self, portion: int) -> int:
        """Return how many sequences may enter where a device runs them better together.

        The first portions are small, so that the device starts soon. Once all slots were taken a
        whole portion enters at a time, or all that wait.
        """
        quota = min(portion, max(MIN_BATCH, 2 * len(self._running)))
        self._was_full = self._was_full and bool(self._running)
        wait = self._was_full and len(self._free) < min(quota, len(self._waiting))
        return 0 if wait else quota

    def _enter(self, entry: _Entry, backend: Backend) -> bool:
        """Give a sequence a slot and memory; whether there was enough of both."""
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
        """Let finished sequences leave, and hand their completions to the callers."""
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
        """After an out-of-memory error, queue all running sequences again, for half the slots.

        Whether that may help: not where one sequence was alone already.
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
        """Give up all sequences; every caller gets the error."""
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
    """Number sequences by their prefixes, which are long: they are compared only here.

    Sequences of two submissions may have the same number by chance; that changes their order in a
    batch and nothing else.
    """
    numbers: dict[tuple[int, ...], int] = {}
    known: dict[int, int] = {}
    for sequence in sequences:
        prefix = sequence.prompt.prefix
        if id(prefix) not in known:  # mostly the very same object
            known[id(prefix)] = numbers.setdefault(prefix, len(numbers))
        sequence.prefix_group = known[id(prefix)]
