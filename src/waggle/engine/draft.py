"""Drafts for lossless speculation: what the answer will probably say next.

Sources, all free of model steps: tokens a grammar forces, continuations seen in this prompt or in
its shared prefix, and what earlier answers said after the same tokens (a swarm's answers share a
skeleton, so this is learned within a round). A draft is only a proposal: the engine keeps exactly
the tokens that the model's own choice confirms, so drafts change speed and never output.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from waggle.engine.constraint import Constraint
from waggle.engine.passes import Pace

ORDER = 3
"""Tokens of context that select a remembered continuation; two serve where three are new."""
MAX_REMEMBERED = 50_000
"""Contexts that are remembered, of half a kilobyte each; then all are forgotten."""

Context = tuple[int, ...]
WIDTH = array("I").itemsize
"""Bytes of a token in a searched text."""


class Echo:
    """Which token last followed three tokens in texts that are read whole."""

    __slots__ = ("_triples",)

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        self._triples: dict[Context, int] = {}
        self.observe(tokens)

    def observe(self, tokens: Sequence[int]) -> None:
        """Remember every continuation in a run of tokens."""
        contexts = zip(tokens, tokens[1:], tokens[2:], strict=False)
        self._triples.update(zip(contexts, tokens[3:], strict=False))

    def __len__(self) -> int:
        return len(self._triples)

    def triple(self, context: Context) -> int | None:
        """Return what last followed three tokens."""
        return self._triples.get(context)


class Trail:
    """A prompt and its answer so far, searched for what last followed some tokens.

    Kept as bytes: an answer asks a few dozen times, so searching is cheaper than an index.
    """

    __slots__ = ("_text",)

    def __init__(self, tokens: Sequence[int]) -> None:
        self._text = _packed(tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Add what was said."""
        self._text += _packed(tokens)

    def after(self, context: Sequence[int]) -> int | None:
        """Return what last followed some tokens."""
        return self._behind(_packed(context))

    def _behind(self, wanted: bytes) -> int | None:
        text = self._text
        at = text.rfind(wanted, 0, len(text) - WIDTH)
        while at > 0 and at % WIDTH:  # found across the bytes of two tokens
            at = text.rfind(wanted, 0, at + len(wanted) - 1)
        if at < 0:
            return None
        end = at + len(wanted)
        return int.from_bytes(text[end : end + WIDTH], sys.byteorder)

    def offered(self, context: Context, tokens: Sequence[int]) -> int | None:
        """Return what last followed three tokens or two, if it is among those offered."""
        wanted = _packed(context)
        found = self._behind(wanted)
        if found is None or found not in tokens:
            found = self._behind(wanted[-2 * WIDTH :])
        return found if found in tokens else None


def _packed(tokens: Sequence[int]) -> bytes:
    return array("I", tokens).tobytes()


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
    echo: int | None
    """What the prompt itself suggests, where it was asked."""


UNKNOWN = Guess(-1, 0.0, None)


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
            usual = (tally.counts[tally.best] + 0.5) / (tally.total + 1.0)
            if usual > chance and tally.best in offered:
                return Guess(tally.best, usual, None)
        echo = None if own is None else own.offered(context, offered)
        if echo is not None:
            return Guess(echo, chance, echo)
        if tally is not None and tally.best in offered:
            return Guess(tally.best, usual, None)
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

    __slots__ = ("_constraint", "_run", "_state", "lost")

    def __init__(self, constraint: Constraint | None) -> None:
        self.lost = constraint is None
        if constraint is not None:
            self._constraint = constraint
            self._state, self._run = constraint.jump(constraint.grammar.start())

    @property
    def offered(self) -> tuple[int, ...]:
        """The tokens to choose from; none within forced text."""
        return () if self._run else self._constraint.options(self._state).tokens

    def pass_over(self, tokens: Sequence[int], first: int) -> int:
        """Follow what is forced from a token on; return where there is a choice, or the end."""
        last = min(len(tokens), first + len(self._run))
        forced, self._run = self._run[: last - first], self._run[last - first :]
        self.lost = tuple(tokens[first:last]) != forced
        return len(tokens) if self.lost else last

    def take(self, token: int) -> None:
        """Follow a choice."""
        self.lost = token not in self.offered
        if not self.lost:
            self._state, self._run = self._constraint.leap(self._state, token)

    def draft(
        self, habits: Habits, own: Trail, recent: Context, limit: int, room: int, patience: float
    ) -> list[int]:
        """Return what is forced from here on, and guesses where there is a choice.

        Beyond a limit the draft goes on as long as a pass that is saved outweighs tokens in vain.
        """
        draft = list(self._run)
        state, chance = self._state, 1.0
        context = (*recent, *draft[-ORDER:])[-ORDER:]
        while len(draft) < room and state.items:
            guess = habits.guess(context, self._constraint.options(state).tokens, own)
            if guess.token < 0:
                break
            state, run = self._constraint.leap(state, guess.token)
            chance *= guess.chance
            if len(draft) >= limit and chance * patience < (1.0 - chance) * (1 + len(run)):
                break
            draft.append(guess.token)
            draft += run
            context = (*context, guess.token, *run)[-ORDER:]
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
        said = (*self._recent, *tokens)
        skeleton, at = self._skeleton, 0
        while not skeleton.lost and (at := skeleton.pass_over(tokens, at)) < len(tokens):
            offered, context = skeleton.offered, said[at : at + ORDER]
            if tokens[at] in offered:
                guess = self._habits.guess(context, offered, self._own)
                self._habits.learn(context, tokens[at], guess.echo)
            skeleton.take(tokens[at])
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
