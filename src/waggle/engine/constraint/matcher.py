"""From a byte grammar to token choices, with jump-forward.

The token language is canonical: at every point the walk spells the shortest continuations that
reach past the next choice and asks the tokenizer how it would write them. The first tokens of
those encodings are the allowed tokens; what all encodings share is forced and costs no model step.
So forced text is the tokenizer's own encoding wherever that is unambiguous, and a token that only
a non-canonical spelling would use is never offered.

Invariant: soundness does not rest on canonicity. Every allowed token begins an encoding of a prefix
of an admissible string, hence every walk that ends spells an admissible string.
"""

from __future__ import annotations

from collections.abc import Callable

from waggle.engine.constraint import lookahead as looks
from waggle.engine.constraint.grammar import Common, Grammar
from waggle.engine.constraint.lookahead import NOTHING, Look, Memo
from waggle.engine.constraint.states import END, State, merge
from waggle.engine.constraint.vocabulary import Vocabulary

Make = Callable[[Common | None], Grammar]
"""Makes a grammar, given what others have in common with it."""


class Constraint:
    """A grammar bound to a vocabulary; shared by every walk over it."""

    def __init__(
        self,
        grammar: Grammar | Make,
        vocabulary: Vocabulary,
        end_token: int,
        common: Common | None = None,
    ) -> None:
        """Bind a grammar, or what makes it when it is needed, with what others have in common."""
        self._made = grammar if isinstance(grammar, Grammar) else None
        self.make = None if isinstance(grammar, Grammar) else grammar
        """What makes the grammar; nothing where it was given."""
        self.vocabulary = vocabulary
        self.end_token = end_token
        self._common = common

    @property
    def grammar(self) -> Grammar:
        """The grammar; one that is still to be made is made now."""
        if self._made is None:
            assert self.make is not None
            self._made = self.make(self._common)
        return self._made

    def shed(self) -> None:
        """Let a grammar go that can be made again, with all that was unfolded of it.

        Prompts outlive their rows: without this, whoever holds them holds thousands of states, and
        the garbage collector looks through all of them when a batch is done.
        """
        if self.make is not None:
            self._made = None

    def walk(self) -> Walk:
        """Start a walk at the first byte."""
        return Walk(self)

    def options(self, state: State) -> Look:
        """Return what may follow a state."""
        return self.memo(state).look

    def memo(self, state: State) -> Memo:
        """Return what is known of a state; what may follow it is found out if it is not."""
        known: Memo | None = state.memo
        if known is not None and known.vocabulary is self.vocabulary:
            return known
        found = NOTHING
        if state.items:
            found = looks.look(self.vocabulary, self.end_token, looks.shape(self.grammar, state))
        memo = state.memo = Memo(self.vocabulary, found)
        return memo

    def follow(self, state: State, token: int) -> State | None:
        """Take a token; continuations the tokenizer would have begun otherwise are left behind."""
        if token == self.end_token:
            return END if state.accepting else None
        memo = self.memo(state)
        data = self.vocabulary.spelling(token)
        if token in memo.look.parting:
            return self._part(memo.origin or state, memo, token, data)
        after = self.grammar.advance(state, data)
        if after is not None and memo.look.run and memo.look.run[0] == token:
            self._remember(after, _shorter(memo.look, data), state, len(data))
        return after

    def skip(self, state: State) -> State | None:
        """Take the forced run of a state at once."""
        memo = self.memo(state)
        if memo.look.run == (self.end_token,):
            return END
        after = self.grammar.advance(state, memo.look.text)
        if after is not None:
            self._remember(after, memo.look.then, state, len(memo.look.text))
        return after

    def leap(self, state: State, token: int) -> tuple[State, tuple[int, ...]]:
        """Take an offered token and all it forces: the next choice or the end, and the forced."""
        leaps = self.memo(state).leaps
        known = leaps.get(token)
        if known is None:
            after = self.follow(state, token)
            assert after is not None, "an offered token leads somewhere"
            known = self.jump(after)
            # Grammars that have this state in common go different ways behind a gate.
            if not self.grammar.parts(state, self.vocabulary.spelling(token)):
                leaps[token] = known
        return known

    def jump(self, state: State) -> tuple[State, tuple[int, ...]]:
        """Take every forced token from a state."""
        if not state.items:
            return state, ()
        memo = self.memo(state)
        if memo.jump is None:
            if not memo.look.run:
                return state, ()
            after = self.skip(state)
            assert after is not None, "a forced run leads somewhere"
            behind, taken = self.jump(after)
            memo.jump = behind, memo.look.run + taken
        return memo.jump

    def _remember(self, state: State, look: Look | None, before: State, width: int) -> None:
        """Note what the lookahead of an earlier state has seen of this one."""
        if look is not None and state.memo is None and state.items:
            seen = before.memo
            origin = (seen.origin or before) if look.parts else None
            state.memo = Memo(self.vocabulary, look, origin, seen.cut + width)

    def _part(self, origin: State, memo: Memo, token: int, data: bytes) -> State | None:
        """Keep the continuations whose own encoding begins with the token."""
        kept = []
        ends = looks.leaves(self.grammar, origin)
        for (text, after), first in zip(ends, memo.look.firsts, strict=True):
            if first == token:
                rest = text[memo.cut + len(data) :]
                kept.append(State(((rest, after),), False) if rest else after)
        return merge(kept)


def _shorter(look: Look, data: bytes) -> Look | None:
    """Return what is left of a forced run after its first token."""
    if len(look.run) == 1:
        return look.then
    return Look((look.run[1],), look.run[1:], look.text[len(data) :], look.then)


class Walk:
    """One request's position in its constraint."""

    __slots__ = ("constraint", "state")

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.state: State | None = constraint.grammar.start()

    @property
    def finished(self) -> bool:
        """Whether the grammar allows nothing more."""
        return self.state is not None and not self.state.items

    def options(self) -> Look:
        """Return what may come next."""
        return NOTHING if self.state is None else self.constraint.options(self.state)

    def take(self, token: int) -> None:
        """Follow one token."""
        if self.state is not None:
            self.state = self.constraint.follow(self.state, token)

    def jump(self) -> list[int]:
        """Take every forced token from here and return them; no model is asked."""
        if self.state is None:
            return []
        self.state, taken = self.constraint.jump(self.state)
        return list(taken)
