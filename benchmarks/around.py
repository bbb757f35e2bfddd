"""A backend around another one: what it does not change, it passes on."""

from __future__ import annotations

from waggle.engine.backends.base import Backend, Pace
from waggle.engine.effort import Effort


class Around:
    """Passes on whatever is not about running tokens and reading answers."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def pace(self, rows: int) -> Pace | None:
        """As the other backend."""
        return self.backend.pace(rows)

    def least(self, rows: int, effort: Effort) -> float:
        """As the other backend."""
        return self.backend.least(rows, effort)

    def foretells(self, rows: int, effort: Effort) -> bool:
        """As the other backend."""
        return self.backend.foretells(rows, effort)

    @property
    def rolls(self) -> bool:
        """As the other backend."""
        return self.backend.rolls

    def recalls(self, rows: int) -> float:
        """As the other backend."""
        return self.backend.recalls(rows)

    def prime(self, most: int, prompt: int) -> None:
        """As the other backend."""
        self.backend.prime(most, prompt)

    def describe(self) -> str:
        """As the other backend."""
        return self.backend.describe()

    def room(self, prefix: int, own: int) -> int:
        """As the other backend."""
        return self.backend.room(prefix, own)

    def reserve(self, prefix: int, own: int) -> None:
        """As the other backend."""
        self.backend.reserve(prefix, own)

    def forget(self) -> None:
        """As the other backend."""
        self.backend.forget()

    def release(self, slot: int) -> None:
        """As the other backend."""
        self.backend.release(slot)
