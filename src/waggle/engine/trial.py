"""Drafts on trial: what those of the engine and those of its callers foretell, and what they cost.

Invariant: speed alone depends on what is found here, never an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waggle.engine.backends.base import Rolled
from waggle.engine.effort import Effort
from waggle.engine.judge import Judge
from waggle.engine.sequence import FreeRow, Row

EXPECTED = 0.25
"""Part of its answers that a caller must foretell: an expected answer makes a prompt longer."""

SOON = 10_000
"""Tokens after which rows try again what they recall: the first answers have none to recall."""


class Standing(NamedTuple):
    """How far a row was before a pass."""

    said: int
    drafted: int
    foretold: int
    expected: bool


def standing(row: Row) -> Standing | None:
    """Return how far a row is; nothing where it is not on trial: nobody foretells its choices."""
    if row.kind == "choice" and not row.prompt.draft:
        return None
    return Standing(len(row.answer), row.drafted, row.accepted, bool(row.expected))


class Trial:
    """Judges drafts by where they come from, and measures what drafting takes."""

    def __init__(self) -> None:
        self._own, self._given, self._recalled = Judge(), Judge(), Judge(SOON)
        self.effort = Effort()

    def drafts(self, least: float) -> bool:
        """Whether free answers are drafted, where drafts must foretell at least this part."""
        return self._own.drafts and least < 1.0

    @property
    def expects(self) -> bool:
        """Whether answers are believed that come with their prompts."""
        return self._given.drafts

    def opened(self, row: FreeRow, expected: bool, seconds: float) -> None:
        """Note how long a free row took to get ready for its first pass."""
        if expected:
            self.effort.foretold(seconds)
        elif row.drafter is None:
            self.effort.rested()
        else:
            self.effort.opened(seconds, len(row.prompt.tail))

    def landed(self, rows: Sequence[Row], seconds: float) -> None:
        """Note how long the rows of a pass took with its answers."""
        if all(isinstance(row, FreeRow) and row.drafter is not None for row in rows):
            self.effort.answered(seconds, len(rows))

    def recalls(self, least: float) -> bool:
        """Whether rolled rows try what they recall, which must be at least this part."""
        return self._recalled.drafts and least < 1.0

    def rolled(self, rolled: Sequence[Rolled], least: float) -> None:
        """Note what rows said while they were rolled: the host drafted nothing for them."""
        said, steps = sum(len(row.tokens) for row in rolled), sum(row.steps for row in rolled)
        self._own.plain(said)
        if any(row.drafted for row in rolled):
            self._recalled.drafted(said, said - steps, least)
            self.effort.recalled(said, steps)
        else:
            self._recalled.plain(said)

    def weigh(self, row: Row, before: Standing, least: float) -> None:
        """Note what drafts brought; a row goes on without them where they bring too little."""
        said, right = len(row.answer) - before.said, row.accepted - before.foretold
        if before.expected:
            self._given.drafted(row.drafted - before.drafted, right, EXPECTED)
        elif row.prompt.draft:
            self._given.plain(said)
        elif row.plain:
            self._own.plain(said)
        else:
            self._own.drafted(said, right, least)
            if not self._own.drafts:
                row.undrafted()
