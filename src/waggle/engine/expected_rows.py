"""Rows that follow a grammar and whose answer somebody expects: one pass verifies all of it.

The prompt is run with the expected answer behind it before the grammar is looked at, so that the
grammar is made and walked while the model runs, if it has to be at all. Where the model's own
choice is the expected token and the grammar offers that token, it is the masked choice too; forced
tokens are not asked for.
Invariant: from the first other choice on, the row is a `ConstrainedRow` like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waggle.engine.backends.base import Pace
from waggle.engine.bound_rows import ConstrainedRow
from waggle.engine.constraint.states import State
from waggle.engine.request import Prompt
from waggle.engine.speculation import Habits


class _Turn(NamedTuple):
    """A choice on the expected way: before which token, where, and what is offered."""

    at: int
    state: State
    offered: tuple[int, ...]


class _Way(NamedTuple):
    """The expected answer as the grammar sees it: its choices, and where it leads or is left."""

    turns: list[_Turn]
    decided: list[int]
    """What is decided if every choice is the expected one."""
    state: State
    """What follows that."""


class ExpectedRow(ConstrainedRow):
    """Verifies an expected answer within a grammar."""

    walks = False  # mostly one pass

    def __init__(
        self, prompt: Prompt, ends: frozenset[int], habits: Habits, pace: Pace | None
    ) -> None:
        super().__init__(prompt, ends, habits, pace)
        self._way: _Way | None = None
        self._fits: bool | None = None

    def open(self) -> None:
        """Run the expected answer behind the prompt; its last token need not be run."""
        self.expected = () if self.steps else self.prompt.expected()
        if not self.expected:
            super().open()
            return
        self.kind = "free"
        first = len(self.pending) - 1
        self.pending = [*self.pending, *self.expected[:-1]]
        self.asked = list(range(first, len(self.pending)))

    def prepare(self) -> None:
        """Find out while the model runs whether the grammar has the expected answer.

        Who expects it may know; otherwise it is walked through the grammar.
        """
        if self.expected and self._fits is None:
            whole = len(self.expected) < self.prompt.max_new_tokens
            self._fits = whole and self.prompt.fits()
            if not self._fits:
                self._way = self._walk()

    def _walk(self) -> _Way:
        constraint, expected = self._constraint, self.expected
        turns: list[_Turn] = []
        decided: list[int] = []
        state, run = constraint.jump(constraint.grammar.start())
        while True:
            decided += run
            at = len(decided)
            right = tuple(expected[at - len(run) : at]) == run
            if not state.items or at >= len(expected) or not right:
                return _Way(turns, decided, state)
            offered = constraint.options(state).tokens
            turns.append(_Turn(at, state, offered))
            if expected[at] not in offered:
                return _Way(turns, decided, state)
            state, run = constraint.leap(state, expected[at])
            decided.append(expected[at])

    def answered(self, tokens: Sequence[int]) -> None:
        """Compare choices with what was expected; go on as usual from the first other one."""
        if not self.expected:
            super().answered(tokens)
            return
        self.prepare()
        expected = self.expected
        self.drafted += len(expected)
        if self._fits and tuple(tokens) == expected:
            self.accepted += len(expected)
            self._append(expected)
            self.finish = "stop"
            return
        way = self._way or self._walk()
        self.expected, self._way = (), None
        self.kind, self._pace = "choice", self._drafting
        for turn in way.turns:
            said = tokens[turn.at]
            if said != expected[turn.at] or said not in turn.offered:
                self._part(turn, said, way.decided[: turn.at])
                return
        self._append(way.decided)
        self.accepted += min(len(way.decided), len(expected))
        if not self._settled(way.state):
            self._resume(way.state, way.decided, self._agreed(way.decided, expected))

    def _part(self, turn: _Turn, said: int, decided: list[int]) -> None:
        """Take another choice than the expected one, or ask for it where the grammar forbids it."""
        self.accepted += turn.at
        self._append(decided)
        if self.done:
            return
        if said not in turn.offered:
            self._resume(turn.state, decided, turn.at)
            return
        state, run = self._constraint.leap(turn.state, said)
        self._append([said, *run])
        if not self._settled(state):
            self._resume(state, [*decided, said, *run], turn.at)

    @staticmethod
    def _agreed(decided: Sequence[int], expected: Sequence[int]) -> int:
        """Return how many decided tokens are the expected ones, from the first on."""
        pairs = zip(decided, expected, strict=False)
        return next(
            (i for i, (a, b) in enumerate(pairs) if a != b), min(len(decided), len(expected))
        )

    def _resume(self, state: State, decided: list[int], agreed: int) -> None:
        """Lay out the next pass: keys of the prompt and of `agreed` expected tokens are there."""
        whole = [*self.prompt.tail, *decided]
        there = min(len(self.prompt.tail) + agreed, self.cached, len(whole) - 1)
        if there == 0:  # a prompt of one token: as if nothing had been run
            self.pending, self.answer, self.cached = list(self.prompt.tail), [], 0
            self.aloft = self.opened = False
            return
        self.cached = there
        self._plan(state, whole[there:])
