"""A backend that costs nothing: it knows every answer beforehand.

Stands in for the model where only the host's own work is measured: grammars, drafts, bookkeeping.
It answers as a model would that wants to say the script of each prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

from waggle.engine.answers import Answers
from waggle.engine.backends.base import Pace, Rolled, Rolling, Running, Said
from waggle.engine.constraint.matcher import Constraint
from waggle.engine.effort import Effort

STRETCH = 16
"""Steps of one roll, as on a GPU."""


class Oracle:
    """Answers from scripts, one per prompt tail."""

    asynchronous = True

    def __init__(
        self,
        scripts: Mapping[tuple[int, ...], Sequence[int]],
        pace: Pace,
        drafts: bool = True,
    ) -> None:
        self._drafts = drafts
        self._scripts = scripts
        self._lengths = sorted({len(tail) for tail in scripts}, reverse=True)
        self._rows: dict[int, tuple[int, Sequence[int], int]] = {}
        self._pace = pace

    def pace(self, rows: int) -> Pace:
        """Return how far drafts reach."""
        return self._pace

    def least(self, rows: int, effort: Effort) -> float:
        """Return what a CPU asks of drafts, or all of it where rows are to be rolled."""
        return 0.25 if self._drafts else 1.0

    def foretells(self, rows: int, effort: Effort) -> bool:
        """Always, so that what they cost is measured."""
        return True

    @property
    def rolls(self) -> bool:
        """As a GPU does where it does not draft."""
        return not self._drafts

    def recalls(self, rows: int) -> float:
        """All of it: scripts are recited token by token."""
        return 1.0

    def roll(
        self, rows: Sequence[Rolling], ends: Sequence[int], answers: Answers | None
    ) -> list[Rolled]:
        """Go on reciting."""
        said = []
        for row in rows:
            tail, script, before = self._rows[row.slot]
            count = min(STRETCH, row.room)
            rest = [*script[row.place + 1 - before - tail :][:count], *[0] * count][:count]
            if not row.forced:
                stop = next((at for at, token in enumerate(rest) if token in ends), len(rest))
                rest = rest[: stop + 1]
            said.append(Rolled(rest, len(rest), 0))
        return said

    def prime(self, most: int, prompt: int) -> None:
        """Nothing to do."""

    def describe(self) -> str:
        """Say how this backend computes."""
        return "an oracle that costs nothing"

    def room(self, prefix: int, own: int) -> int:
        """Any number: nothing is kept side by side."""
        return 1 << 30

    def reserve(self, prefix: int, own: int) -> None:
        """Nothing to do."""

    def forget(self) -> None:
        """Forget every row."""
        self._rows.clear()

    def release(self, slot: int) -> None:
        """Forget a row."""
        self._rows.pop(slot, None)

    def _script(self, chunk: Sequence[int]) -> tuple[int, Sequence[int]]:
        """Find the tail that a first chunk begins with."""
        for length in self._lengths:
            script = self._scripts.get(tuple(chunk[:length]))
            if script is not None and len(chunk) >= length:
                return length, script
        raise KeyError("the oracle has no script for this prompt")

    def run(self, rows: Sequence[Running]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the next scripted token at each asked offset, as its state."""
        said: list[int] = []
        for slot, chunk, start, offsets, prefix in rows:
            if start == 0:
                self._rows[slot] = (*self._script(chunk), len(prefix))
            tail, script, _ = self._rows[slot]
            places = [start + offset + 1 - tail for offset in offsets]
            said.extend(script[place] if place < len(script) else 0 for place in places)
        return np.array(said, dtype=np.int64)

    def argmax(
        self, hidden: np.ndarray[tuple[int], np.dtype[np.int64]], banned: Sequence[int] = ()
    ) -> Said:
        """Return the scripted tokens."""
        said: list[int] = hidden.tolist()
        return lambda: said

    def choose(
        self,
        hidden: np.ndarray[tuple[int], np.dtype[np.int64]],
        allowed: Sequence[tuple[int, ...]],
    ) -> Said:
        """Return the scripted tokens where they are allowed, else any that is."""
        said: list[int] = hidden.tolist()
        pairs = zip(said, allowed, strict=True)
        found = [token if token in tokens else tokens[0] for token, tokens in pairs]
        return lambda: found


def recite(constraint: Constraint, random: Random, habit: float) -> list[int]:
    """Draw an answer of a grammar: the first option with some chance, else any."""
    walk = constraint.walk()
    answer = walk.jump()
    while not walk.finished:
        offered = walk.options().tokens
        token = offered[0] if random.random() < habit else random.choice(offered)
        walk.take(token)
        answer += [token, *walk.jump()]
    return answer
