"""Rows that follow a grammar: forced tokens are appended, choices are asked of the model.

Invariant: an answer is that of greedy decoding masked by the grammar, whatever was drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from waggle.engine.backends.base import Pace
from waggle.engine.constraint.states import State
from waggle.engine.echoes import Context, Trail
from waggle.engine.request import Prompt
from waggle.engine.sequence import Row
from waggle.engine.speculation import ORDER, Habits

_Point: TypeAlias = tuple[State, Context, int, int | None, tuple[int, ...]]
"""A choice on the way: its state, the tokens before it, what was guessed (-1: nothing), what the
prompt itself suggested, and the forced tokens behind the guess, which are used only where the draft
goes on. Plain, since an answer has a dozen of them."""


class ConstrainedRow(Row):
    """Follows a grammar: forced tokens are appended, choices are asked of the model.

    The draft guesses choices too and runs on behind them, so that one pass answers several. Each
    guess is checked against the model's masked choice; from the first wrong one on, nothing is
    kept.
    """

    walks = True

    def __init__(
        self, prompt: Prompt, ends: frozenset[int], habits: Habits, pace: Pace | None
    ) -> None:
        super().__init__(prompt, ends)
        self.kind = "choice"
        assert prompt.grammar is not None
        self._constraint = prompt.grammar
        self._habits = habits
        self._pace: Pace | None = None
        self._own: Trail | None = None
        self._drafting = pace
        self._points: list[_Point] = []
        self.offers: list[tuple[int, ...]] = []
        """The tokens allowed at each asked offset."""

    def open(self) -> None:
        """Take what the grammar forces at once, and lay out the first choices."""
        state, run = self._constraint.jump(self._constraint.grammar.start())
        self._append(run)
        self._pace = self._drafting
        self._read()
        if not self._settled(state):
            self._plan(state, [*self.pending, *run])

    def _read(self) -> None:
        """Let guesses quote the prompt and the answer so far."""
        if self._own is None and self._pace is not None:
            self._own = Trail([*self.prompt.tail, *self.answer])

    def answered(self, tokens: Sequence[int]) -> None:
        """Keep what was guessed right, take the first other choice, and plan on from there."""
        self._read()
        points, learn = self._points, self._habits.learn
        first, last, final = self.asked[0], len(self.pending) - 1, len(points) - 1
        said: list[int] = []
        for index, token in enumerate(tokens):
            state, context, guess, echo, run = points[index]
            learn(context, token, echo)
            said.append(token)
            if token != guess or index == final:
                break
            said += run
        offset = self.asked[index]
        self.drafted += last - first
        self.accepted += offset - first
        self.cached -= last - offset
        self._go_on(state, token, said)

    def _go_on(self, state: State, token: int, said: list[int]) -> None:
        """Decide what was said and what that forces, and lay out the next pass."""
        after, run = self._constraint.leap(state, token)
        said += run
        self._append(said)
        if self._own is not None:
            self._own.extend(said)
        if not self._settled(after):
            self._plan(after, [token, *run])

    def _settled(self, state: State) -> bool:
        if not state.items and not self.finish:
            self.finish = "stop"
        return self.done

    def _plan(self, state: State, pending: list[int]) -> None:
        """Lay out decided tokens and a draft behind them, with every choice on the way.

        A guess is made where it saves enough passes, and the draft goes on behind it where a saved
        pass outweighs the tokens that a wrong guess would waste.
        """
        constraint, guesses, own = self._constraint, self._habits.guess, self._own
        patience = 0.0 if self._pace is None else self._pace.patience
        context = self._context()
        room = self.prompt.max_new_tokens - len(self.answer)
        points: list[_Point] = []
        offers, asked = [], []
        chance = 1.0
        while True:
            memo = constraint.memo(state)
            offered = memo.look.tokens
            guess, likely, echo = guesses(context, offered, own)
            chance *= likely
            offers.append(offered)
            asked.append(len(pending) - 1)
            if guess < 0 or chance * patience < 1.0:
                points.append((state, context, guess, echo, ()))
                break
            after, run = memo.leaps.get(guess) or constraint.leap(state, guess)
            points.append((state, context, guess, echo, run))
            taken = 1 + len(run)
            room -= taken
            if not after.items or room <= 0 or chance * patience < (1.0 - chance) * taken:
                break
            state = after
            pending.append(guess)
            pending += run
            context = run[-ORDER:] if taken > ORDER else (*context, guess, *run)[-ORDER:]
        self.pending, self.asked = pending, asked
        self.offers, self._points = offers, points

    def _context(self) -> Context:
        """Return the last tokens so far."""
        recent = tuple(self.answer[-ORDER:])
        if len(recent) < ORDER:
            recent = (*self.prompt.tail[-ORDER:], *recent)[-ORDER:]
        return recent
