"""Drafts for lossless speculation: what the answer will probably say next.

Sources, all free of model steps: tokens a grammar forces, continuations seen in this prompt or in
its shared prefix, and what earlier answers said after the same tokens (a swarm's answers share a
skeleton, so this is learned within a round). A draft is only a proposal: the engine keeps exactly
the tokens that the model's own choice confirms, so drafts change speed and never output.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    def __init__(self, tokens: Sequence[int] = (), pairs: bool = False) -> None:
        self._pairs: dict[Context, int] | None = {} if pairs else None
        self._triples: dict[Context, int] = {}
        self.observe(tokens)

    def observe(self, tokens: Sequence[int]) -> None:
        """Remember every continuation in a run of tokens."""
        second, third, fourth = tokens[1:], tokens[2:], tokens[3:]
        self._triples.update(zip(zip(tokens, second, third, strict=False), fourth, strict=False))
        if self._pairs is not None:
            self._pairs.update(zip(zip(tokens, second, strict=False), third, strict=False))

    def __len__(self) -> int:
        return len(self._triples)

    def triple(self, context: Context) -> int | None:
        """Return what last followed three tokens."""
        return self._triples.get(context)

    def pair(self, context: Context) -> int | None:
        """Return what last followed two tokens."""
        return None if self._pairs is None else self._pairs.get(context)


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
        self._said = Echo()

    def learn(self, context: Context, token: int, echo: int | None = None) -> None:
        """Note what was chosen after a context, and what the prompt's own echo had been."""
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

    def remember(self, tokens: Sequence[int]) -> None:
        """Note a whole free answer."""
        if len(self._said) > MAX_REMEMBERED:
            self._said = Echo()
        self._said.observe(tokens)

    def usual(self, context: Context) -> int | None:
        """Return what last came after a context in a free answer."""
        return self._said.triple(context)


class _Stand(NamedTuple):
    """Where a skeleton stands after so many tokens of a draft; a context where it was a choice."""

    taken: int
    state: State
    context: Context
    echo: int | None


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
        self._own = Echo(prompt, pairs=True)
        self._prefix = prefix
        self._skeleton = skeleton
        self._state: State | None = skeleton.grammar.start() if skeleton is not None else None
        self._recent: Context = tuple(prompt[-ORDER:])
        self._least, self._most = span
        self._way: list[_Stand] = []
        self.limit = self._most // 2

    def follow(self, tokens: Sequence[int], agreed: int) -> None:
        """Note tokens the model confirmed, of which so many are the last draft's."""
        self._own.observe((*self._recent, *tokens))
        if self._state is not None:
            self._walk(tokens, agreed)
        self._recent = (*self._recent, *tokens)[-ORDER:]

    def _walk(self, tokens: Sequence[int], agreed: int) -> None:
        """Move the skeleton on, from the last place the draft has been that the model confirmed."""
        taken = 0
        for stand in self._way:
            if stand.taken > agreed:
                break
            taken, self._state = stand.taken, stand.state
            if stand.context:
                self._habits.learn(stand.context, tokens[taken - 1], stand.echo)
        skeleton = self._skeleton
        assert skeleton is not None
        for index in range(taken, len(tokens)):
            if self._state is None:
                return
            if not skeleton.options(self._state).run:
                context = (*self._recent, *tokens[:index])[-ORDER:]
                self._habits.learn(context, tokens[index], self._own.triple(context))
            self._state = skeleton.follow(self._state, tokens[index])

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
        self._way = []
        recent = self._recent
        state = self._state if limit > 0 else None
        if state is not None:
            recent = self._spell(state, draft, limit)
        if state is None or not (self._way[-1].state if self._way else state).items:
            while len(draft) < limit:
                token = self._next(recent)
                if token is None:
                    break
                draft.append(token)
                recent = (*recent[-2:], token)
        return draft[:limit]

    def _spell(self, state: State, draft: list[int], limit: int) -> Context:
        """Draft along the skeleton: what it forces, and guesses where it leaves a choice."""
        skeleton = self._skeleton
        assert skeleton is not None
        recent = self._recent
        while len(draft) < limit and state.items:
            look = skeleton.options(state)
            context: Context = ()
            echo = None
            if look.run:
                draft.extend(look.run)
                after = skeleton.skip(state)
            else:
                context, echo = recent, self._own.triple(recent)
                guess = self._habits.guess(recent, look.tokens, echo)
                if guess.token < 0:
                    break
                draft.append(guess.token)
                after = skeleton.follow(state, guess.token)
            assert after is not None, "an offered token leads somewhere"
            state = after
            recent = (*recent, *draft[-ORDER:])[-ORDER:]
            self._way.append(_Stand(len(draft), state, context, echo))
        return recent

    def _next(self, recent: Context) -> int | None:
        """Return what came after the same tokens here, in other answers or in the prefix."""
        found = self._own.triple(recent)
        if found is None:
            found = self._habits.usual(recent)
        if found is None:
            found = self._prefix.triple(recent)
        return self._own.pair(recent[-2:]) if found is None else found
