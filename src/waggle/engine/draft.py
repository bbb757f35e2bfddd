"""Drafts for lossless speculation: what the answer will probably say next.

Sources, all free of model steps: tokens a grammar forces, continuations seen in this prompt or in
its shared prefix, and what earlier answers said after the same tokens (a swarm's answers share a
skeleton, so this is learned within a round). A draft is only a proposal: the engine keeps exactly
the tokens that the model's own choice confirms, so drafts change speed and never output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from waggle.engine.constraint import Constraint
from waggle.engine.grammar import State

ORDER = 3
"""Tokens of context that select a remembered continuation; two serve where three are new."""
MAX_REMEMBERED = 200_000

Context = tuple[int, ...]


class Echo:
    """Which token followed which context in some text, latest first."""

    __slots__ = ("_pairs", "_triples")

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        self._pairs: dict[Context, int] = {}
        self._triples: dict[Context, int] = {}
        self.observe(tokens)

    def observe(self, tokens: Sequence[int]) -> None:
        """Remember every continuation in a run of tokens."""
        second, third = islice(tokens, 1, None), islice(tokens, 2, None)
        triples = list(zip(tokens, second, third, strict=False))
        self._triples.update(zip(triples, islice(tokens, 3, None), strict=False))
        self._pairs.update([((a, b), c) for a, b, c in triples])

    def triple(self, context: Context) -> int | None:
        """Return what last followed three tokens."""
        return self._triples.get(context)

    def pair(self, context: Context) -> int | None:
        """Return what last followed two tokens."""
        return self._pairs.get(context)


class _Tally:
    """How often which token came, and how often a prompt's own echo was right."""

    __slots__ = ("best", "counts", "echoes", "hits", "total")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.best = -1
        self.total = 0
        self.echoes = 0
        self.hits = 0

    def add(self, token: int, echo: int | None) -> None:
        count = self.counts[token] = self.counts.get(token, 0) + 1
        self.total += 1
        if count >= self.counts.get(self.best, 0):
            self.best = token
        if echo is not None:
            self.echoes += 1
            self.hits += echo == token


class Guess(NamedTuple):
    """A token that may come next and how likely it is; -1 where nothing is known."""

    token: int
    chance: float


UNKNOWN = Guess(-1, 0.0)


class Habits:
    """What answers of this engine said after which tokens."""

    def __init__(self) -> None:
        self._tallies: dict[Context, _Tally] = {}

    def learn(self, context: Context, token: int, echo: int | None = None) -> None:
        """Note what came after a context, and what the prompt's own echo had been."""
        tally = self._tallies.get(context)
        if tally is None:
            if len(self._tallies) >= MAX_REMEMBERED:
                self._tallies.clear()
            tally = self._tallies[context] = _Tally()
        tally.add(token, echo)

    def guess(self, context: Context, offered: Sequence[int], echo: int | None) -> Guess:
        """Return the likeliest of the offered tokens."""
        tally = self._tallies.get(context)
        if echo is not None and echo not in offered:
            echo = None
        if tally is None:
            return UNKNOWN if echo is None else Guess(echo, 0.5)
        chance = (tally.hits + 1) / (tally.echoes + 2) if echo is not None else 0.0
        usual = (tally.counts[tally.best] + 0.5) / (tally.total + 1.0)
        if usual > chance and tally.best in offered:
            return Guess(tally.best, usual)
        return UNKNOWN if echo is None else Guess(echo, chance)

    def usual(self, context: Context) -> int | None:
        """Return what mostly came after a context."""
        tally = self._tallies.get(context)
        return None if tally is None else tally.best


class Drafter:
    """Proposes the next tokens of one free answer."""

    def __init__(
        self,
        habits: Habits,
        prompt: Sequence[int],
        prefix: Echo,
        skeleton: Constraint | None,
        span: tuple[int, int],
    ) -> None:
        self._habits = habits
        self._own = Echo(prompt)
        self._prefix = prefix
        self._skeleton = skeleton
        self._state: State | None = skeleton.grammar.start() if skeleton is not None else None
        self._recent: Context = tuple(prompt[-ORDER:])
        self._least, self._most = span
        self.limit = self._most // 2

    def follow(self, tokens: Sequence[int]) -> None:
        """Note tokens the model confirmed."""
        context = self._recent
        for token in tokens:
            self._habits.learn(context, token)
            context = (*context[-2:], token)
            if self._state is not None and self._skeleton is not None:
                self._state = self._skeleton.follow(self._state, token)
        self._own.observe((*self._recent, *tokens))
        self._recent = context

    def learn(self, proposed: int, accepted: int) -> None:
        """Lengthen drafts while they are confirmed, shorten them when they are not."""
        if proposed and accepted == proposed:
            self.limit = min(2 * self.limit + 1, self._most)
        elif proposed:
            self.limit = min(max(self._least, accepted + 1), self._most)

    def propose(self, room: int) -> list[int]:
        """Return a draft that continues the answer, at most `room` tokens."""
        limit = min(self.limit, room)
        draft: list[int] = []
        recent, state = self._recent, self._state
        while len(draft) < limit:
            look = None
            if state is not None and self._skeleton is not None:
                look = self._skeleton.options(state)
                if look.run:
                    draft.extend(look.run)
                    recent = (*recent, *look.run)[-ORDER:]
                    state = self._skeleton.skip(state)
                    continue
            token = self._next(recent, None if look is None else look.tokens)
            if token is None:
                break
            draft.append(token)
            recent = (*recent[-2:], token)
            if state is not None and self._skeleton is not None:
                state = self._skeleton.follow(state, token)
        return draft[:limit]

    def _next(self, recent: Context, offered: tuple[int, ...] | None) -> int | None:
        if offered is not None:
            guess = self._habits.guess(recent, offered, self._own.triple(recent))
            return None if guess.token < 0 else guess.token
        found = self._own.triple(recent)
        if found is None:
            found = self._habits.usual(recent)
        if found is None:
            found = self._prefix.triple(recent)
        return self._own.pair(recent[-2:]) if found is None else found
