"""A named random stream of small numbers, for generators that need many of them.

A draw is a pure function of the stream's name and of the number of draws before it; there is no
global state. Every draw advances the stream by one step; the step is inlined because generators
spend their time here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from waggle.core.seeds import derive, mix

_T = TypeVar("_T")


class Draw:
    """A random stream named by (root, purpose, key)."""

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
        """Return True with a probability of `percent` percent."""
        self._count += 1
        return mix(self._seed, self._count) % 100 < percent

    def choice(self, items: Sequence[_T]) -> _T:
        """Return a random item."""
        self._count += 1
        return items[mix(self._seed, self._count) % len(items)]

    def some(self, items: Sequence[_T], count: int) -> list[_T]:
        """Return `count` different items, or all if there are fewer, in random order."""
        keyed = sorted((self.bits(), i) for i in range(len(items)))
        return [items[i] for _, i in keyed[:count]]
