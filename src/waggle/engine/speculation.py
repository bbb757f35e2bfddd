"""Drafts for lossless speculation: what the answer will probably say next.

Sources, all free of model steps: tokens a grammar forces, continuations seen in this prompt or in
its shared prefix, and what earlier answers said after the same tokens (a swarm's answers share a
skeleton, so this is learned within a round). A draft is only a proposal: the engine keeps exactly
the tokens that the model's own choice confirms, so drafts change speed and never output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from waggle.engine.backends.base import Pace
from waggle.engine.constraint.matcher import Constraint
from waggle.engine.constraint.states import State
from waggle.engine.echoes import Context, Echo, Trail

ORDER = 3
"""Tokens of context that select a remembered continuation; two serve where three are new."""
MAX_REMEMBERED = 50_000
"""Contexts that are remembered, of half a kilobyte each; then all are forgotten."""


class _Tally:
    """How often which token came, and how often a prompt's own echo was right."""

    __slots__ = ("best", "counts", "echoes", "hits", "most", "total")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.best = -1
        self.most = 0
        """How often the best came."""
        self.total = 0
        self.echoes = 0
        self.hits = 0

    def add(self, token: int, echo: int | None) -> None:
        count = self.counts[token] = self.counts.get(token, 0) + 1
        self.total += 1
        if count >= self.most:
            self.best, self.most = token, count
        if echo is not None:
            self.echoes += 1
            self.hits += echo == token


Guess: TypeAlias = tuple[int, float, int | None]
"""A token that may come next (-1 where nothing is known), how likely it is, and what the prompt
itself suggests, where it was asked. Plain, since an answer makes a dozen of them."""
UNKNOWN: Guess = -1, 0.0, None


class Habits:
    """What answers of this engine said after which tokens."""

    def __init__(self) -> None:
        self._tallies: dict[Context, _Tally] = {}
        self._said = Echo()

    def learn(self, context: Context, token: int, echo: int | None = None) -> None:
        """Note what was chosen after a context, and what the prompt's own echo had been."""
        tally = self._tallies.get(context)
        if tally is None:
            if len(self._tallies) >= MAX_REMEMBERED:
                self._tallies.clear()
            tally = self._tallies[context] = _Tally()
        tally.add(token, echo)

    def guess(self, context: Context, offered: Sequence[int], own: Trail | None) -> Guess:
        """Return the likeliest of the offered tokens; `own` is searched only where it may differ.

        What the prompt itself suggests is believed as often as it was right in this context.
        """
        tally = self._tallies.get(context)
        chance = 0.5
        if tally is not None:
            chance = (tally.hits + 1) / (tally.echoes + 2)
            usual = (tally.most + 0.5) / (tally.total + 1.0)
            if usual > chance and tally.best in offered:
                return tally.best, usual, None
        echo = None if own is None else own.offered(context, offered)
        if echo is not None:
            return echo, chance, echo
        if tally is not None and tally.best in offered:
            return tally.best, usual, None
        return UNKNOWN

    def remember(self, tokens: Sequence[int]) -> None:
        """Note a whole free answer."""
        if len(self._said) > MAX_REMEMBERED:
            self._said = Echo()
        self._said.observe(tokens)

    def usual(self, context: Context) -> int | None:
        """Return what last came after a context in a free answer."""
        return self._said.triple(context)


class Skeleton:
    """Where a free answer stands in the grammar it will probably follow.

    Forced tokens still to come, and the choice behind them. An answer that says anything else has
    left the grammar for good; drafts then come from elsewhere.
    """

    __slots__ = ("_ahead", "_constraint", "_run", "_state", "lost")

    def __init__(self, constraint: Constraint | None) -> None:
        self.lost = constraint is None
        self._ahead: list[tuple[int, int | None, tuple[State, tuple[int, ...]]]] = []
        """Choices as they were drafted, the next one last: a guess, its echo, where it leads."""
        if constraint is not None:
            self._constraint = constraint
            self._state, self._run = constraint.jump(constraint.grammar.start())

    def pass_over(self, tokens: tuple[int, ...], first: int) -> int:
        """Follow what is forced from a token on; return where there is a choice, or the end."""
        run = self._run
        last = first + len(run)
        if tokens[first:last] == run:
            self._run = ()
            return last
        said = tokens[first:]
        self.lost, self._run = run[: len(said)] != said, run[len(said) :]
        return len(tokens)

    def take(self, token: int, context: Context, habits: Habits, own: Trail) -> None:
        """Follow a choice, and learn from it."""
        guess, echo, behind = self._ahead.pop() if self._ahead else (-1, None, None)
        if behind is None or guess != token:
            offered = self._constraint.options(self._state).tokens
            self.lost = token not in offered
            if self.lost:
                return
            if behind is None:
                _, _, echo = habits.guess(context, offered, own)
            self._ahead.clear()
            behind = self._constraint.leap(self._state, token)
        habits.learn(context, token, echo)
        self._state, self._run = behind

    def draft(
        self, habits: Habits, own: Trail, recent: Context, limit: int, room: int, patience: float
    ) -> list[int]:
        """Return what is forced from here on, and guesses where there is a choice.

        Beyond a limit the draft goes on as long as a pass that is saved outweighs tokens in vain.
        """
        draft, ahead = list(self._run), []
        state, chance, constraint = self._state, 1.0, self._constraint
        context = (*recent, *draft[-ORDER:])[-ORDER:]
        while len(draft) < room and state.items:
            memo = constraint.memo(state)
            token, likely, echo = habits.guess(context, memo.look.tokens, own)
            if token < 0:
                break
            behind = memo.leaps.get(token) or constraint.leap(state, token)
            state, run = behind
            chance *= likely
            if len(draft) >= limit and chance * patience < (1.0 - chance) * (1 + len(run)):
                break
            ahead.append((token, echo, behind))
            draft.append(token)
            draft += run
            context = run[-ORDER:] if len(run) >= ORDER else (*context, token, *run)[-ORDER:]
        self._ahead = ahead[::-1]
        return draft[:room]


class Drafter:
    """Proposes the next tokens of one free answer."""

    def __init__(
        self,
        habits: Habits,
        prompt: Sequence[int],
        prefix: Echo,
        skeleton: Constraint | None,
        pace: Pace,
    ) -> None:
        self._habits = habits
        self._own = Trail(prompt)
        self._prefix = prefix
        self._skeleton = Skeleton(skeleton)
        self._recent: Context = tuple(prompt[-ORDER:])
        self._patience, self._least, self._most = pace
        self.limit = self._most // 2

    def follow(self, tokens: Sequence[int]) -> None:
        """Note tokens the model confirmed."""
        tokens = tuple(tokens)
        said = self._recent + tokens
        skeleton, at = self._skeleton, 0
        while not skeleton.lost and (at := skeleton.pass_over(tokens, at)) < len(tokens):
            skeleton.take(tokens[at], said[at : at + ORDER], self._habits, self._own)
            at += 1
        self._own.extend(tokens)
        self._recent = said[-ORDER:]

    @property
    def strays(self) -> bool:
        """Whether the answer follows no grammar, so that only earlier answers foretell it."""
        return self._skeleton.lost

    def learn(self, proposed: int, accepted: int) -> None:
        """Lengthen drafts while they are confirmed, shorten them when they are not."""
        if proposed and accepted == proposed:
            self.limit = min(2 * self.limit + 1, self._most)
        elif proposed:
            self.limit = min(max(self._least, accepted + 1), self._most)

    def propose(self, room: int) -> list[int]:
        """Return a draft that continues the answer, at most `room` tokens."""
        limit = min(self.limit, room)
        recent = self._recent
        if not self._skeleton.lost:
            reach = limit, max(room, 0), self._patience
            return self._skeleton.draft(self._habits, self._own, recent, *reach)
        draft: list[int] = []
        while len(draft) < limit:
            token = self._next(recent)
            if token is None:
                break
            draft.append(token)
            recent = (recent[-2], recent[-1], token)
        return draft

    def _next(self, recent: Context) -> int | None:
        """Return what came after the same tokens here, in other answers or in the prefix."""
        found = self._own.after(recent)
        if found is None:
            found = self._habits.usual(recent)
        if found is None:
            found = self._prefix.triple(recent)
        return self._own.after(recent[-2:]) if found is None else found
