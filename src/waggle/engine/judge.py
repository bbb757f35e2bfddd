"""Whether drafts pay: found out while answering, and looked at again now and then.

A draft that the model confirms saves a pass, and every draft costs one that does more. What part of
an answer drafts must foretell to break even depends on the machine and is the backend's to say;
what part they do foretell depends on the model and is counted here. Invariant: speed alone depends
on a judgement, never an answer.
"""

from __future__ import annotations

TRIED = 4_000
"""Tokens of drafted answers that make a judgement."""
REST = 100_000
"""Tokens that are then said without drafts before they are tried again; twice as many each time."""
MAX_REST = 1_000_000


class Judge:
    """Counts what drafts foretold, and says whether to go on making them."""

    def __init__(self, rest: int | None = None) -> None:
        """Begin with drafts; `rest` is how long they are first done without."""
        self._said = self._foretold = 0
        self._resting = 0
        self._first = self._rest = REST if rest is None else rest

    @property
    def drafts(self) -> bool:
        """Whether answers are to be drafted now."""
        return self._resting == 0

    def drafted(self, said: int, foretold: int, least: float) -> None:
        """Note tokens of a drafted answer, and how many of them its drafts had foretold."""
        self._said += said
        self._foretold += foretold
        if self._said < TRIED:
            return
        if self._foretold < least * self._said:
            self._resting, self._rest = self._rest, min(2 * self._rest, MAX_REST)
        else:
            self._rest = self._first
        self._said = self._foretold = 0

    def plain(self, said: int) -> None:
        """Note tokens that were said without drafts."""
        self._resting = max(0, self._resting - said)
