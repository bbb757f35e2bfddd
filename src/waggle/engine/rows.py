"""The state of one request inside the engine: which tokens are decided, which still to be run.

Pure bookkeeping over token lists; the model is elsewhere. `asked` lists the offsets in `pending`
whose next token is the model's to say. Invariant: `pending` is never empty while a row is active,
and its first token is the earliest one whose keys are not cached yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waggle.engine.draft import ORDER, Context, Drafter, Echo, Guess, Habits, Trail
from waggle.engine.grammar import State
from waggle.engine.passes import Pace
from waggle.engine.request import Completion, Prompt, Usage

ASKED = list(range(256))
"""Offsets of a chunk that is asked everywhere."""


class Row:
    """One request being decoded; subclasses differ in how a model answer is used."""

    kind = ""
    """How tokens are asked for: `choice` among offers, `free`, or `forced` past the end tokens."""

    plain = False
    """Whether every next token is the model's argmax after the last one, and nothing is drafted."""

    def __init__(self, prompt: Prompt, ends: frozenset[int]) -> None:
        self.prompt = prompt
        self.family = 0
        """A number that rows of one prefix have in common."""
        self.ends = ends
        self.slot = -1
        self.cached = 0
        self.pending: list[int] = list(prompt.tail)
        self.asked: list[int] = [len(self.pending) - 1]
        self.answer: list[int] = []
        self.finish = ""
        self.steps = 0
        self.drafted = 0
        self.accepted = 0

    @property
    def done(self) -> bool:
        """Whether the answer is complete."""
        return bool(self.finish)

    def open(self) -> None:
        """Get ready for the first pass."""

    def advanced(self) -> None:
        """Note that the pending tokens went through the model."""
        self.cached += len(self.pending)
        self.steps += 1

    def prepare(self) -> None:
        """Use the time while the model runs; nothing may depend on it."""

    def answered(self, tokens: Sequence[int]) -> None:
        """Use what the model says after each asked offset."""
        raise NotImplementedError

    def undrafted(self) -> None:
        """Go on without drafts, where there were any."""

    def _append(self, tokens: Sequence[int]) -> None:
        """Decide tokens, up to an end token or the longest answer."""
        if self.finish:
            return
        if not self.prompt.ignore_end and not self.ends.isdisjoint(tokens):
            stop = next(index for index, token in enumerate(tokens) if token in self.ends)
            tokens, self.finish = tokens[:stop], "stop"
        room = self.prompt.max_new_tokens - len(self.answer)
        self.answer.extend(tokens[:room])
        if len(tokens) >= room:
            self.finish = "length"

    def rolled(self, tokens: Sequence[int]) -> None:
        """Use a stretch of tokens that followed one another, up to the end of the answer."""
        room = self.prompt.max_new_tokens - len(self.answer)
        known = len(self.answer)
        self._append(tokens[:room])
        said = len(self.answer) - known + (self.finish == "stop")
        self.cached += said
        self.steps += said
        self.pending = self.answer[-1:]

    def completion(self, text: str, reused: int) -> Completion:
        """Close the row."""
        usage = Usage(
            prompt_tokens=len(self.prompt.prefix) + len(self.prompt.tail),
            cached_tokens=reused,
            completion_tokens=len(self.answer),
            model_steps=self.steps,
            drafted_tokens=self.drafted,
            accepted_tokens=self.accepted,
        )
        return Completion(text, tuple(self.answer), self.finish, usage)


class _Point(NamedTuple):
    """A choice on the way: where it is asked, what is offered, and what was guessed."""

    offset: int
    state: State
    offered: tuple[int, ...]
    context: Context
    echo: int | None
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
        self._ready: tuple[int, tuple[int, ...], _Plan] | None = None
        self._points: list[_Point] = []

    def open(self) -> None:
        """Take what the grammar forces at once, and lay out the first choice."""
        state, run = self._constraint.jump(self._constraint.grammar.start())
        self._append(run)
        if not self._settled(state):
            self._load(self._plan(state, [*self.pending, *run]))
        self._pace = self._drafting

    @property
    def offers(self) -> list[tuple[int, ...]]:
        """The tokens allowed at each asked offset."""
        return [point.offered for point in self._points]

    def prepare(self) -> None:
        """Look through the grammar, and plan ahead for the likeliest answer to the first choice."""
        if self.steps != 1:
            return
        self._look_through()
        if self._pace is None:
            return
        self._own = Trail([*self.prompt.tail, *self.answer])
        point = self._points[-1]
        echo = self._own.offered(point.context, point.offered)
        guess = self._habits.guess(point.context, point.offered, echo)
        if guess.token >= 0:
            state, run = self._constraint.leap(point.state, guess.token)
            decided = [guess.token, *run]
            if state.items:
                self._ready = (guess.token, run, self._plan(state, decided, ahead=decided))

    def _look_through(self) -> None:
        """Follow the first option of every choice: what is found out serves the others, too."""
        state, room = self._points[-1].state, self.prompt.max_new_tokens
        while state.items and room > 0:
            state, run = self._constraint.leap(state, self._constraint.options(state).tokens[0])
            room -= 1 + len(run)

    def answered(self, tokens: Sequence[int]) -> None:
        """Keep what was guessed right, take the first other choice, and plan on from there."""
        if self._own is None and self._pace is not None:
            self._own = Trail([*self.prompt.tail, *self.answer])
        points, last = self._points, len(self.pending) - 1
        first = points[0].offset
        said: list[int] = []
        for point, token in zip(points, tokens, strict=True):
            self._habits.learn(point.context, token, point.echo)
            said.append(token)
            if token != point.guess.token or point is points[-1]:
                break
            said += point.run
        self.drafted += last - first
        self.accepted += point.offset - first
        self.cached -= last - point.offset
        if self._own is not None:
            self._own.extend(said)
        self._go_on(point, token, said)

    def _go_on(self, point: _Point, token: int, said: list[int]) -> None:
        """Decide what was said and what that forces, and lay out the next pass."""
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == token and self.steps == 1:
            self._append([*said, *ready[1]])
            if not self.done:
                self._load(ready[2])
            return
        state, run = self._constraint.leap(point.state, token)
        self._append([*said, *run])
        if not self._settled(state):
            self._load(self._plan(state, [token, *run]))

    def _settled(self, state: State) -> bool:
        if not state.items and not self.finish:
            self.finish = "stop"
        return self.done

    def _load(self, plan: _Plan) -> None:
        self.pending, self._points = plan
        self.asked = [point.offset for point in self._points]

    def _plan(self, state: State, decided: list[int], ahead: Sequence[int] = ()) -> _Plan:
        """Lay out decided tokens and a draft behind them, with every choice on the way."""
        pending = list(decided)
        context = tuple([*self.prompt.tail[-ORDER:], *self.answer[-ORDER:], *ahead][-ORDER:])
        room = self.prompt.max_new_tokens - len(self.answer) - len(ahead)
        points: list[_Point] = []
        chance = 1.0
        while True:
            offered = self._constraint.options(state).tokens
            echo = None if self._own is None else self._own.offered(context, offered)
            guess = self._habits.guess(context, offered, echo)
            chance *= guess.chance
            last = guess.token < 0 or not self._likely(chance)
            after, run = (state, ()) if last else self._constraint.leap(state, guess.token)
            points.append(_Point(len(pending) - 1, state, offered, context, echo, guess, run))
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


class FreeRow(Row):
    """Plain greedy decoding with verified drafts."""

    def __init__(
        self,
        prompt: Prompt,
        ends: frozenset[int],
        habits: Habits,
        pace: Pace | None,
    ) -> None:
        """Prepare a row; until it may quote its prefix it drafts nothing."""
        super().__init__(prompt, ends)
        self.kind = "forced" if prompt.ignore_end else "free"
        self._habits = habits
        self._prefix: Echo | None = None
        self._pace = pace
        self.plain = True
        self.drafter: Drafter | None = None
        self.draft: list[int] = []

    def quote(self, prefix: Echo) -> None:
        """Draft this answer, from what its prefix says among others."""
        self._prefix = prefix
        self.plain = self._pace is None

    def undrafted(self) -> None:
        """Go on without drafts."""
        self.drafter, self._prefix, self.draft = None, None, []
        self.plain = True
        self.pending = self.pending[:1]
        self.asked = self.asked[:1]

    def prepare(self) -> None:
        """Read the prompt for drafts."""
        if self.drafter is None and self._pace is not None and self._prefix is not None:
            span = (self._pace.least, self._pace.most)
            skeleton = self.prompt.skeleton
            self.drafter = Drafter(self._habits, self.prompt.tail, self._prefix, skeleton, span)

    def answered(self, tokens: Sequence[int]) -> None:
        """Use the model's argmax after the last decided token and after each draft token."""
        self.prepare()
        agreed = 0
        while agreed < len(self.draft) and self.draft[agreed] == tokens[agreed]:
            agreed += 1
        known = len(self.answer)
        self._append(tokens[: agreed + 1])
        self.drafted += len(self.draft)
        self.accepted += agreed
        self.cached -= len(self.draft) - agreed
        if self.drafter is not None:
            self.drafter.learn(len(self.draft), agreed)
            self.drafter.follow(self.answer[known:])
        if not self.done:
            self._propose()

    def _propose(self) -> None:
        room = self.prompt.max_new_tokens - len(self.answer) - 1
        self.draft = [] if self.drafter is None else self.drafter.propose(room)
        self.pending = [self.answer[-1], *self.draft]
        self.asked = ASKED[: len(self.pending)]
