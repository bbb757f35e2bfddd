"""Who waits, who has a cache slot, and who waits for whose answers.

Rows enter free slots in the order they came, as far as there is memory; a row that leaves gives its
slot to the next (continuous batching). Invariant: a slot has one row at most.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from waggle.engine.backends.base import Backend
from waggle.engine.request import Completion
from waggle.engine.sequence import Row

ENTRIES = 8
"""Passes over which all places are taken, where rows enter with every pass."""


class Ticket:
    """The answers one caller waits for."""

    def __init__(self, count: int) -> None:
        self.completions: list[Completion | None] = [None] * count
        self.error: Exception | None = None
        self._open = count

    @property
    def complete(self) -> bool:
        """Whether nothing more will come."""
        return self.error is not None or self._open == 0

    def put(self, index: int, completion: Completion) -> None:
        """Hand in one answer."""
        self.completions[index] = completion
        self._open -= 1

    def fail(self, error: Exception) -> None:
        """Give up."""
        self.error = error


class Seat(NamedTuple):
    """A row, and where its answer goes."""

    row: Row
    ticket: Ticket
    place: int


class Seats:
    """The queue and the slots of one engine."""

    def __init__(self, rows: int) -> None:
        self.count = rows
        self._most = rows
        """Slots that may be taken at once; fewer while memory is short."""
        self._alone = False
        """Whether it is so short that a row has been let in alone, and nothing has come of it."""
        self._full = False
        """Whether somebody had to wait for a place since all of them were free."""
        self._queue: deque[Seat] = deque()
        self._free = sorted(range(rows), reverse=True)
        self._last = [0] * rows
        """Which prefix a slot had last, by identity: a row of the same one need not copy it."""
        self._taken: list[Seat] = []
        self._door = threading.Lock()

    @property
    def free(self) -> int:
        """How many slots nobody has."""
        return len(self._free)

    def rows(self) -> list[Row]:
        """Return the rows that have slots."""
        return [seat.row for seat in self._taken]

    def queue(self, seats: Iterable[Seat]) -> None:
        """Let rows wait."""
        with self._door:
            self._queue.extend(seats)

    def admit(self, backend: Backend, most: int, least: int) -> None:
        """Let waiting rows in, in order, as far as there are slots and memory for them.

        Where a device works by itself, at most so many at once, the fewer the fewer there are, so
        that it begins soon; of rows that take many passes, as many as keep two flights of one size.
        """
        if backend.asynchronous and self._queue:
            walks = self.count >= 2 * least and self._queue[0].row.walks
            most = self._beside(least) if walks else self._together(most, least)
        with self._door:
            while most > 0 and self._open and self._enter(self._queue[0], backend):
                self._queue.popleft()
                most -= 1
            self._full = self._full or (most > 0 and bool(self._queue))

    def _beside(self, least: int) -> int:
        """Return how many rows may join those that are here, the others being on their way.

        Half of the places are theirs, or a device would have nothing to do while they are read. Few
        at a time, since those that enter together leave together: every pass shall have some. Where
        there are few in all, one flight is enough.
        """
        if len(self._taken) + len(self._queue) <= least:
            return least
        here = sum(not seat.row.aloft for seat in self._taken)
        side = max(1, min(self.count, self._most) // 2)
        return min(max(least // 2, self.count // ENTRIES), side - here)

    def _together(self, most: int, least: int) -> int:
        """Return how many rows may enter where they take few passes, or roll once they are in.

        When all places were taken not few, unless few wait: a device runs them better together.
        """
        most = min(most, max(least, 2 * len(self._taken)))
        self._full = self._full and bool(self._taken)
        wait = self._full and len(self._free) < min(most, len(self._queue))
        return 0 if wait else most

    def next(self, most: int) -> list[Row]:
        """Return the rows that will enter next."""
        with self._door:
            return [seat.row for seat in islice(self._queue, most)]

    @property
    def _open(self) -> bool:
        """Whether somebody waits and may take a slot."""
        return bool(self._queue and self._free) and len(self._taken) < self._most

    def _enter(self, seat: Seat, backend: Backend) -> bool:
        """Give a row a slot and room; whether it could be."""
        prompt, at = seat.row.prompt, len(self._free) - 1
        size = len(prompt.prefix), len(prompt.tail) + prompt.max_new_tokens
        held = backend.room(*size)
        if held < self.count:
            taken = max((row.slot for row in self.rows()), default=-1)
            if max(taken, self._free[at]) >= held:
                return False
        else:
            mine, last = id(prompt.prefix), self._last
            found = (i for i in range(at, -1, -1) if last[self._free[i]] == mine)
            at = next(found, at)
        backend.reserve(*size)  # first, since it may fail
        slot = self._free.pop(at)
        self._last[slot] = id(prompt.prefix)
        seat.row.slot = slot
        self._taken.append(seat)
        return True

    def leave(self, backend: Backend, close: Callable[[Row], Completion]) -> None:
        """Let rows that are done go, and hand in their answers."""
        if not any(seat.row.finish for seat in self._taken):
            return
        staying = []
        for seat in self._taken:
            if seat.row.finish:
                seat.ticket.put(seat.place, close(seat.row))
                self._release(seat.row, backend)
            else:
                staying.append(seat)
        self._most = min(self.count, self._most + len(self._taken) - len(staying))
        self._alone = False
        self._taken = staying
        self._free.sort(reverse=True)

    def _release(self, row: Row, backend: Backend) -> None:
        self._free.append(row.slot)
        backend.release(row.slot)
        row.slot = -1

    def again(self, backend: Backend, renew: Callable[[Row], Row]) -> bool:
        """Let all who have slots wait once more, before the others, for half as many.

        Whether that may help: not where one row had been let in alone already.
        """
        if self._alone:
            return False
        self._most = max(1, min(self._most, len(self._taken)) // 2)
        self._alone = self._most == 1
        with self._door:
            for seat in reversed(self._taken):
                self._release(seat.row, backend)
                self._queue.appendleft(seat._replace(row=renew(seat.row)))
            self._taken.clear()
            self._free.sort(reverse=True)
        return True

    def clear(self, backend: Backend) -> Iterator[Ticket]:
        """Send everybody away; yield their tickets."""
        with self._door:
            for seat in (*self._taken, *self._queue):
                yield seat.ticket
                if seat.row.slot >= 0:
                    self._release(seat.row, backend)
            self._taken.clear()
            self._queue.clear()
            self._most, self._alone = self.count, False
            self._free.sort(reverse=True)
