"""Rows that follow a grammar: forced tokens are appended, choices are asked of the model.

Invariant: an answer is that of greedy decoding masked by the grammar, whatever was drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waggle.engine.draft import ORDER, Context, Guess, Habits, Trail
from waggle.engine.grammar import State
from waggle.engine.passes import Pace
from waggle.engine.request import Prompt
from waggle.engine.rows import Row


class _Point(NamedTuple):
    """A choice on the way: where it is asked, what is offered, and what was guessed."""

    offset: int
    state: State
    offered: tuple[int, ...]
    context: Context
    guess: Guess
    run: tuple[int, ...]
    """Forced tokens behind the guess; used only where the draft goes on."""


class _Plan(NamedTuple):
    """What to run next and the choices on the way."""

    pending: list[int]
    points: list[_Point]


class ConstrainedRow(Row):
    """Follows a grammar: forced tokens are appended, choices are asked of the model.

    The draft guesses choices too and runs on behind them, so that one pass answers several. Each
    guess is checked against the model's masked choice; from the first wrong one on, nothing is
    kept.
    """

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

    def open(self) -> None:
        """Take what the grammar forces at once, and lay out the first choices."""
        state, run = self._constraint.jump(self._constraint.grammar.start())
        self._append(run)
        self._pace = self._drafting
        self._read()
        if not self._settled(state):
            self._load(self._plan(state, [*self.pending, *run]))

    def _read(self) -> None:
        """Let guesses quote the prompt and the answer so far."""
        if self._own is None and self._pace is not None:
            self._own = Trail([*self.prompt.tail, *self.answer])

    @property
    def offers(self) -> list[tuple[int, ...]]:
        """The tokens allowed at each asked offset."""
        return [point.offered for point in self._points]

    def answered(self, tokens: Sequence[int]) -> None:
        """Keep what was guessed right, take the first other choice, and plan on from there."""
        self._read()
        points, last = self._points, len(self.pending) - 1
        first = points[0].offset
        said: list[int] = []
        for point, token in zip(points, tokens, strict=True):
            self._habits.learn(point.context, token, point.guess.echo)
            said.append(token)
            if token != point.guess.token or point is points[-1]:
                break
            said += point.run
        self.drafted += last - first
        self.accepted += point.offset - first
        self.cached -= last - point.offset
        self._go_on(point, token, said)

    def _go_on(self, point: _Point, token: int, said: list[int]) -> None:
        """Decide what was said and what that forces, and lay out the next pass."""
        state, run = self._constraint.leap(point.state, token)
        said += run
        self._append(said)
        if self._own is not None:
            self._own.extend(said)
        if not self._settled(state):
            self._load(self._plan(state, [token, *run]))

    def _settled(self, state: State) -> bool:
        if not state.items and not self.finish:
            self.finish = "stop"
        return self.done

    def _load(self, plan: _Plan) -> None:
        self.pending, self._points = plan
        self.asked = [point.offset for point in self._points]

    def _plan(self, state: State, decided: list[int]) -> _Plan:
        """Lay out decided tokens and a draft behind them, with every choice on the way."""
        pending = list(decided)
        context = tuple([*self.prompt.tail[-ORDER:], *self.answer[-ORDER:]][-ORDER:])
        room = self.prompt.max_new_tokens - len(self.answer)
        points: list[_Point] = []
        chance = 1.0
        while True:
            offered = self._constraint.options(state).tokens
            guess = self._habits.guess(context, offered, self._own)
            chance *= guess.chance
            last = guess.token < 0 or not self._likely(chance)
            after, run = (state, ()) if last else self._constraint.leap(state, guess.token)
            points.append(_Point(len(pending) - 1, state, offered, context, guess, run))
            room -= 1 + len(run)
            if last or not after.items or room <= 0 or not self._worth(chance, 1 + len(run)):
                return _Plan(pending, points)
            state = after
            pending += [guess.token, *run]
            context = (*context, guess.token, *run)[-ORDER:]

    def _likely(self, chance: float) -> bool:
        """Whether a guess saves enough passes to be made at all."""
        pace = self._pace
        return pace is not None and chance * pace.patience >= 1.0

    def _worth(self, chance: float, tokens: int) -> bool:
        """Whether a saved pass outweighs the tokens that a wrong guess would waste."""
        assert self._pace is not None
        return chance * self._pace.patience >= (1.0 - chance) * tokens
