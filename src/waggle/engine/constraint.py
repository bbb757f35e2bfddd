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

from dataclasses import dataclass

from waggle.engine.grammar import END, Grammar, State, common_prefix, merge
from waggle.engine.vocabulary import Vocabulary

LOOKAHEAD = 8
"""Bytes spelled past the forced text, so that a token is not cut by the end of the lookahead."""
MAX_LEAVES = 96
"""Continuations encoded at one point; beyond it the lookahead is shortened."""


@dataclass(frozen=True, slots=True)
class Options:
    """The tokens that may come next: one means forced, none means the end."""

    tokens: tuple[int, ...]
    run: tuple[int, ...] = ()
    """Forced tokens from here on; empty where there is a choice."""
    leaves: tuple[tuple[bytes, State, int], ...] = ()
    """Where there is a choice: each continuation, the state after it, its first token."""


class Constraint:
    """A grammar bound to a vocabulary; shared by every walk over it."""

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, end_token: int) -> None:
        self.grammar = grammar
        self.vocabulary = vocabulary
        self.end_token = end_token
        self._options: dict[State, Options] = {}

    def walk(self) -> Walk:
        """Start a walk at the first byte."""
        return Walk(self)

    def options(self, state: State) -> Options:
        """Return what may follow a state."""
        known = self._options.get(state)
        if known is None:
            known = self._options[state] = self._look(state)
        return known

    def _look(self, state: State) -> Options:
        if state.finished:
            return Options(())
        leaves = self._leaves(state)
        spelled = [self._trusted(text, after.finished) for text, after in leaves]
        run = _shared_run(spelled)
        if not run:
            return _choice(leaves, spelled)
        self._foresee(state, run, leaves, spelled)
        return Options((run[0],), run)

    def _foresee(
        self,
        state: State,
        run: tuple[int, ...],
        leaves: list[tuple[bytes, State]],
        spelled: list[tuple[int, ...]],
    ) -> None:
        """Note the choice behind a forced run: its encodings are at hand already."""
        after = self.skip(state, run)
        rest = [tokens[len(run) :] for tokens in spelled]
        if after is None or after in self._options or not all(rest) or run[-1] == self.end_token:
            return
        width = sum(len(self.vocabulary.spelling(token)) for token in run)
        self._options[after] = _choice([(text[width:], end) for text, end in leaves], rest)

    def _trusted(self, text: bytes, complete: bool) -> tuple[int, ...]:
        """Encode a leaf; the last token of an unfinished one may still grow, so it is dropped."""
        if not text:
            return (self.end_token,)
        tokens = self.vocabulary.encode(text)
        return tokens if complete or len(tokens) == 1 else tokens[:-1]

    def follow(self, state: State, token: int) -> State | None:
        """Take a token; continuations the tokenizer would have begun otherwise are left behind."""
        if token == self.end_token:
            return END if state.accepting else None
        data = self.vocabulary.spelling(token)
        rivals = [leaf for leaf in self.options(state).leaves if leaf[0].startswith(data)]
        if all(first == token for _, _, first in rivals):
            return self.grammar.advance(state, data)
        kept = [(text, after) for text, after, first in rivals if first == token]
        if not kept:
            return self.grammar.advance(state, data)
        return merge([_rest(text[len(data) :], after) for text, after in kept])

    def skip(self, state: State, run: tuple[int, ...]) -> State | None:
        """Take a forced run at once."""
        if run == (self.end_token,):
            return END
        return self.grammar.advance(state, b"".join(map(self.vocabulary.spelling, run)))

    def _leaves(self, state: State) -> list[tuple[bytes, State]]:
        """Spell every continuation until it passes the lookahead or ends."""
        leaves: list[tuple[bytes, State]] = []
        frontier = self._grow(b"", state)
        goal = len(common_prefix([text for text, _ in frontier])) + LOOKAHEAD
        while frontier:
            grown: list[tuple[bytes, State]] = []
            for text, here in frontier:
                if here.finished or len(text) >= goal:
                    leaves.append((text, here))
                else:
                    grown.extend(self._grow(text, here))
            if len(grown) + len(leaves) > MAX_LEAVES:
                return leaves + grown
            frontier = grown
        return leaves

    def _grow(self, text: bytes, here: State) -> list[tuple[bytes, State]]:
        closure = self.grammar.closure
        grown = [(text + label, closure(target)) for label, target in here.items]
        if here.accepting:
            grown.append((text, END))
        return grown


def _choice(leaves: list[tuple[bytes, State]], spelled: list[tuple[int, ...]]) -> Options:
    firsts = [tokens[0] for tokens in spelled]
    ends = [(text, after, first) for (text, after), first in zip(leaves, firsts, strict=True)]
    return Options(tuple(sorted(set(firsts))), (), tuple(ends))


def _rest(text: bytes, after: State) -> State:
    return State(((text, after),), False) if text else after


def _shared_run(encodings: list[tuple[int, ...]]) -> tuple[int, ...]:
    first = min(encodings)
    last = max(encodings)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[:length]


class Walk:
    """One request's position in its constraint."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.state: State | None = constraint.grammar.start()

    @property
    def lost(self) -> bool:
        """Whether the text has left the grammar (possible in free decoding only)."""
        return self.state is None

    @property
    def finished(self) -> bool:
        """Whether the grammar allows nothing more."""
        return self.state is not None and self.state.finished

    def options(self) -> Options:
        """Return what may come next."""
        if self.state is None:
            return Options((), ())
        return self.constraint.options(self.state)

    def take(self, token: int) -> None:
        """Follow one token."""
        if self.state is not None:
            self.state = self.constraint.follow(self.state, token)

    def jump(self) -> list[int]:
        """Take every forced token from here and return them; no model is asked."""
        taken: list[int] = []
        while self.state is not None:
            run = self.options().run
            if not run:
                break
            self.state = self.constraint.skip(self.state, run)
            taken.extend(run)
        return taken
