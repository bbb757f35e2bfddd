"""A named stream of small draws, for generators that need many of them.

A draw is a pure function of the stream's name and of how many draws were taken before; nothing is
global. Every draw takes one step of the stream, written out because generators spend their time
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from waggle.core.seeds import derive, mix

_T = TypeVar("_T")


class Draw:
    """A stream named by (root, purpose, key)."""

    def __init__(self, root: int, purpose: str, *key: int | str) -> None:
        self._seed = derive(root, purpose, *key)
        self._count = 0

    def bits(self) -> int:
        """Return the next 64 bits."""
        self._count += 1
        return mix(self._seed, self._count)

    def below(self, bound: int) -> int:
        """Return a number in range(bound)."""
        self._count += 1
        return mix(self._seed, self._count) % bound

    def between(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        self._count += 1
        return low + mix(self._seed, self._count) % (high - low + 1)

    def chance(self, percent: int) -> bool:
        """Return True in so many of a hundred draws."""
        self._count += 1
        return mix(self._seed, self._count) % 100 < percent

    def choice(self, items: Sequence[_T]) -> _T:
        """Return one of some items."""
        self._count += 1
        return items[mix(self._seed, self._count) % len(items)]

    def some(self, items: Sequence[_T], count: int) -> list[_T]:
        """Return so many different items, or all of them, in drawn order."""
        keyed = sorted((self.bits(), i) for i in range(len(items)))
        return [items[i] for _, i in keyed[:count]]
