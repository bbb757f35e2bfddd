"""What the engine asks of whatever runs its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from waggle.engine.answers import Answers
from waggle.engine.cuda.greedy_loop import Rolled as Rolled
from waggle.engine.cuda.greedy_loop import Rolling as Rolling
from waggle.engine.effort import Effort


class Pace(NamedTuple):
    """How far drafts reach: what a pass costs, in tokens of one row, and lengths of free drafts."""

    patience: float
    least: int
    most: int


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

    def pace(self, rows: int) -> Pace | None:
        """Return how far drafts should reach with this many rows; None where none may be used."""
        ...

    def least(self, rows: int, effort: Effort) -> float:
        """Return the part of free answers that drafts must foretell to pay, with this many rows.

        `effort` is what drafts have cost the host so far.
        """
        ...

    def foretells(self, rows: int, effort: Effort) -> bool:
        """Whether free answers that come with their prompts pay, with this many rows."""
        ...

    @property
    def rolls(self) -> bool:
        """Whether rows can be rolled: decoded greedily for many steps before they are read."""
        ...

    def recalls(self, rows: int) -> float:
        """Return the part of rolled answers that earlier texts must foretell to be looked up."""
        ...

    def roll(
        self, rows: Sequence[Rolling], ends: Sequence[int], answers: Answers | None
    ) -> list[Rolled]:
        """Roll rows on for some steps; given answers, drafts are looked up there and in prompts."""
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
