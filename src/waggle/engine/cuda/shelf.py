"""Recorded steps by size: a size is recorded when it has come up often."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

OFTEN = 3
"""A size is recorded when it comes up for this time; recording takes as long as some passes."""
LATER = 1000
"""A size that could not be recorded is tried again when it has come up so many times more."""

Size = TypeVar("Size", bound=Hashable)
Kept = TypeVar("Kept")


class Shelf(dict[Size, Kept]):
    """Recorded steps, and how often sizes have come up; clearing it leaves that known."""

    def __init__(self) -> None:
        super().__init__()
        self._met: dict[Size, int] = {}

    def has(self, size: Size) -> bool:
        """Note that a size has come up; whether it is recorded, or worth it by now."""
        if size in self:
            return True
        self._met[size] = self._met.get(size, 0) + 1
        return self._met[size] >= OFTEN

    def take(self, size: Size, record: Callable[[], Kept]) -> Kept:
        """Return the recorded step of a size, recording it if need be."""
        found = self.get(size)
        if found is None:
            self._met[size] = -LATER  # if it fails now
            found = self[size] = record()
            self._met[size] = OFTEN  # should it be dropped, it is recorded again at once
        return found
