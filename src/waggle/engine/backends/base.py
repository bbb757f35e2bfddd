"""What the engine asks of whatever runs its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from waggle.engine.cuda.greedy_loop import Rolled as Rolled
from waggle.engine.cuda.greedy_loop import Rolling as Rolling
from waggle.engine.speculation import Text as Text

Said = Callable[[], list[int]]
"""Waits for tokens that were asked for, and returns them."""


class Running(NamedTuple):
    """A row to be run: tokens behind those it has, and where it asks."""

    slot: int
    tokens: Sequence[int]
    start: int
    """Own tokens that were run before; 0 for a row that enters."""
    asked: Sequence[int]
    """Offsets in the tokens behind which the next one is wanted."""
    prefix: tuple[int, ...]


class Backend(Protocol):
    """Runs rows of tokens and reads the model's next ones."""

    @property
    def asynchronous(self) -> bool:
        """Whether `run` returns before its work is done."""
        ...

    @property
    def verifies(self) -> bool:
        """Whether a pass may run drafts: the cache can take rejected tokens back."""
        ...

    @property
    def rolls(self) -> bool:
        """Whether rows can be rolled: decoded greedily for many steps before they are read."""
        ...

    def roll(
        self, rows: Sequence[Rolling], ends: Sequence[int], history: Text | None
    ) -> list[Rolled]:
        """Roll rows on for some steps; with a history of answers the device drafts from it."""
        ...

    def prime(self, most: int, prompt: int) -> None:
        """Make steps of up to this many tokens ready, and passes with prompts of this length."""
        ...

    def describe(self) -> str:
        """Say how this backend computes."""
        ...

    def room(self, prefix: int, own: int) -> int:
        """Return how many rows the memory holds when one of this size is among them."""
        ...

    def reserve(self, prefix: int, own: int) -> None:
        """Make room for rows of this many own positions after this long a prefix."""
        ...

    def run(self, rows: Sequence[Running]) -> Any:
        """Run tokens of each row; return states at the asked offsets of each in turn."""
        ...

    def argmax(self, hidden: Any, banned: Sequence[int] = ()) -> Said:
        """Ask for the most likely next token of each state, banned tokens aside."""
        ...

    def choose(self, hidden: Any, allowed: Sequence[tuple[int, ...]]) -> Said:
        """Ask for each state's most likely token among those allowed to it."""
        ...

    def forget(self) -> None:
        """Give caches back after a failure, which may have left them half made."""
        ...

    def release(self, slot: int) -> None:
        """A row has left its slot."""
        ...
