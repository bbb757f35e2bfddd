"""The event queue: virtual time, phases, and no label in its order.

Events of one time and phase form a batch; their order inside the batch is never used, because the
handlers treat a batch as a set. So the queue needs no tie-break that could read a name.
"""

from __future__ import annotations

import heapq
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from waggle.runtime.transport import Message


class Phase(IntEnum):
    """What happens first at one instant of virtual time."""

    INJECT = 0
    MEMBERSHIP = 1
    START = 2
    COMPLETE = 3
    TICK = 4
    EXPIRE = 5
    DELIVER = 6
    CLOSE = 7


class Leave(NamedTuple):
    """A node goes away; its pending call is cancelled."""

    node: int


class Join(NamedTuple):
    """A node comes (back), with its private state and commitment."""

    node: int


class Start(NamedTuple):
    """A node forms its view and calls the law."""

    node: int


class Complete(NamedTuple):
    """A pending call returns."""

    node: int


class Deliver(NamedTuple):
    """A message arrives."""

    message: Message


class Drop(NamedTuple):
    """A message is lost."""

    message: Message


class Mark(NamedTuple):
    """A global instant: injection, world step, expiry timers, end of the interval."""


Event: TypeAlias = Leave | Join | Start | Complete | Deliver | Drop | Mark


class Queue:
    """Events by (time, phase)."""

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int], list[Event]] = {}
        self._heap: list[tuple[int, int]] = []

    def post(self, time: int, phase: Phase, event: Event) -> None:
        """Schedule an event."""
        slot = (time, int(phase))
        batch = self._batches.get(slot)
        if batch is None:
            self._batches[slot] = [event]
            heapq.heappush(self._heap, slot)
        else:
            batch.append(event)

    def pop(self) -> tuple[int, Phase, list[Event]] | None:
        """Return the earliest batch, or None when nothing is left."""
        if not self._heap:
            return None
        time, phase = heapq.heappop(self._heap)
        return time, Phase(phase), self._batches.pop((time, phase))
