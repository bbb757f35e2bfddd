"""The incident field of one node: what it holds, how it ages, when it expires.

A trace is held per (neighbour, claim) and the newest wins. Each round it loses one TTL step and
one bin of novelty, and one bin of support every second round without refresh.
"""

from __future__ import annotations

import msgspec

from waggle.core.protocols import Held, Write


class Field:
    """The traces one node holds, in world words."""

    __slots__ = ("_ages", "_cells")

    def __init__(self) -> None:
        self._cells: dict[tuple[int, str], Held] = {}
        self._ages: dict[tuple[int, str], int] = {}

    def __len__(self) -> int:
        return len(self._cells)

    def traces(self) -> tuple[Held, ...]:
        """Return all held traces."""
        return tuple(self._cells.values())

    def put(self, write: Write) -> None:
        """Take in a delivered write; it replaces what that channel said of that claim."""
        key = (write.sender, write.claim)
        self._cells[key] = Held(
            write.sender, write.claim, write.novelty, write.support, write.conflict, write.ttl,
            write.direction,
        )  # fmt: skip
        self._ages[key] = 0

    def age(self) -> int:
        """Advance one round of decay and expiry; return how many traces expired."""
        expired = 0
        for key, held in list(self._cells.items()):
            if held.ttl <= 1:
                del self._cells[key], self._ages[key]
                expired += 1
                continue
            self._ages[key] = age = self._ages[key] + 1
            self._cells[key] = Held(
                held.neighbour,
                held.claim,
                held.novelty - 1 if held.novelty else 0,
                held.support - 1 if held.support and age % 2 == 0 else held.support,
                held.conflict,
                held.ttl - 1,
                held.direction,
            )
        return expired

    def forget(self, neighbours: frozenset[int]) -> None:
        """Drop what came over channels that no longer exist."""
        for key in [key for key in self._cells if key[0] not in neighbours]:
            del self._cells[key], self._ages[key]

    def without_conflict(self) -> tuple[Held, ...]:
        """Return the traces as the NoConflict switch shows them."""
        return tuple(msgspec.structs.replace(h, conflict=0) for h in self._cells.values())
