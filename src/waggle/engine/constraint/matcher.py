"""The matcher: which tokens a grammar allows next, and which it forces (jump-forward).

At every state the matcher spells the shortest continuations that reach past the next choice and
encodes them with the tokenizer. The first tokens of those encodings are the allowed tokens; their
common prefix is forced and costs no model pass. So forced text is the tokenizer's own encoding, and
a token that only a non-canonical spelling would use is not allowed.

Views differ in handles and claims, but their records hardly differ in form: after `"novelty":` the
same digits and the same comma follow in every view. The labels within a lookahead are its shape;
tokenizing is the expensive part of a match, so it is done once per shape and cached in the
vocabulary.

Invariant: every allowed token begins an encoding of a prefix of an admissible string, so every
completed match spells an admissible string. A lookahead is a function of its shape alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from waggle.engine.constraint.grammar import (
    END,
    Grammar,
    SharedStates,
    State,
    common_prefix,
    union,
)
from waggle.engine.constraint.vocabulary import Vocabulary

REACH = 8
"""Bytes spelled past the forced text, so that the end of the lookahead cuts no token."""
MAX_LEAVES = 96
"""The most continuations encoded at one state; beyond it the lookahead is shortened."""
MAX_KEPT = 500_000
"""The most continuations in a vocabulary's cached shapes, each of a tenth of a kilobyte."""

Make = Callable[[SharedStates | None], Grammar]
"""A callable that builds a grammar over the states it shares with others."""
Shape = tuple[object, ...]
"""Nested labels: (label, shape after it), (label, True) at an end, None where it may stop."""
Jump = tuple[State, tuple[int, ...]]
"""A state with a choice or the end state, and the forced tokens that lead to it."""


@dataclass(frozen=True, slots=True)
class Lookahead:
    """The tokens that may come next: a single one is forced, none means the end."""

    tokens: tuple[int, ...]
    forced: tuple[int, ...] = ()
    """Forced tokens from here on; empty where there is a choice."""
    text: bytes = b""
    """The bytes that the forced tokens spell."""
    then: Lookahead | None = None
    """The lookahead after the forced tokens, if this lookahead reaches that far."""
    ambiguous: frozenset[int] = frozenset()
    """Tokens that also begin continuations for which the tokenizer uses another first token."""
    firsts: tuple[int, ...] = ()
    """The first token of each continuation, in shape order; empty without ambiguous tokens."""

    @property
    def is_ambiguous(self) -> bool:
        """Whether a token here or further on is ambiguous, so that the leaves are needed again."""
        return bool(self.ambiguous) or (self.then is not None and self.then.is_ambiguous)


NOTHING = Lookahead(())


class Memo:
    """The cached lookahead of a state, or the rest of that of `origin`, `offset` bytes before it.

    A memo belongs to one vocabulary, since one grammar may be matched with several. States without
    reference cycles are freed with their sequence, without the garbage collector, so `origin` is
    kept for ambiguous lookaheads only.
    """

    __slots__ = ("accepted", "ahead", "jump", "offset", "origin", "vocabulary")

    def __init__(
        self, vocabulary: Vocabulary, ahead: Lookahead, origin: State | None = None, offset: int = 0
    ) -> None:
        self.vocabulary = vocabulary
        self.ahead = ahead
        self.origin = origin
        self.offset = offset
        self.accepted: dict[int, Jump] = {}
        """The jump after each chosen token."""
        self.jump: Jump | None = None
        """The jump over the forced tokens from here."""


class Matcher:
    """A grammar bound to a vocabulary; every sequence that uses it keeps its own state."""

    def __init__(
        self,
        grammar: Grammar | Make,
        vocabulary: Vocabulary,
        end_token: int,
        shared: SharedStates | None = None,
    ) -> None:
        """Bind a grammar, or a callable that builds it when it is first needed."""
        self._grammar = grammar if isinstance(grammar, Grammar) else None
        self._make = None if isinstance(grammar, Grammar) else grammar
        self.vocabulary = vocabulary
        self.end_token = end_token
        self._shared = shared

    @property
    def grammar(self) -> Grammar:
        """The grammar, built on first access."""
        if self._grammar is None:
            assert self._make is not None
            self._grammar = self._make(self._shared)
        return self._grammar

    def release(self) -> None:
        """Free the grammar and its states if it can be rebuilt.

        Prompts outlive their sequences: without this, their owner would keep thousands of states
        alive and the garbage collector would visit all of them.
        """
        if self._make is not None:
            self._grammar = None

    def start(self) -> Jump:
        """Return the first choice, and the forced tokens before it."""
        return self.jump_forward(self.grammar.start())

    def mask(self, state: State) -> tuple[int, ...]:
        """Return the tokens that may follow a state."""
        return self.memo(state).ahead.tokens

    def memo(self, state: State) -> Memo:
        """Return the memo of a state, looking ahead from it if necessary."""
        known: Memo | None = state.memo
        if known is not None and known.vocabulary is self.vocabulary:
            return known
        found = NOTHING
        if state.edges:
            found = lookahead(self.vocabulary, self.end_token, _shape(self.grammar, state)[0])
        memo = state.memo = Memo(self.vocabulary, found)
        return memo

    def accept(self, state: State, token: int) -> Jump:
        """Take an allowed token and jump forward; return the next choice and the forced tokens."""
        known = self.memo(state).accepted
        found = known.get(token)
        if found is None:
            after = self.accept_one(state, token)
            assert after is not None, "an allowed token leads somewhere"
            found = known[token] = self.jump_forward(after)
        return found

    def jump_forward(self, state: State) -> Jump:
        """Take every forced token from a state."""
        if not state.edges:
            return state, ()
        memo = self.memo(state)
        if memo.jump is None:
            if not memo.ahead.forced:
                return state, ()
            behind, taken = self.jump_forward(self._take_forced(state, memo))
            memo.jump = behind, memo.ahead.forced + taken
        return memo.jump

    def accept_one(self, state: State, token: int) -> State | None:
        """Return the state after one token, or None if the grammar does not allow it.

        Continuations for which the tokenizer uses another first token are dropped.
        """
        if token == self.end_token:
            return END if state.accepting else None
        memo = self.memo(state)
        data = self.vocabulary.spelling(token)
        if token in memo.ahead.ambiguous:
            return self._resolve(memo.origin or state, memo, token, data)
        after = self.grammar.advance(state, data)
        if after is not None and memo.ahead.forced[:1] == (token,):
            self._remember(after, _shorter(memo.ahead, data), state, len(data))
        return after

    def _take_forced(self, state: State, memo: Memo) -> State:
        """Return the state after the forced tokens of a lookahead."""
        if memo.ahead.forced == (self.end_token,):
            return END
        after = self.grammar.advance(state, memo.ahead.text)
        assert after is not None, "forced tokens lead somewhere"
        self._remember(after, memo.ahead.then, state, len(memo.ahead.text))
        return after

    def _remember(self, state: State, ahead: Lookahead | None, before: State, width: int) -> None:
        """Store the part of an earlier state's lookahead that starts at this state."""
        if ahead is not None and state.memo is None and state.edges:
            earlier = before.memo
            origin = (earlier.origin or before) if ahead.is_ambiguous else None
            state.memo = Memo(self.vocabulary, ahead, origin, earlier.offset + width)

    def _resolve(self, origin: State, memo: Memo, token: int, data: bytes) -> State:
        """Keep the continuations whose own encoding begins with an ambiguous token."""
        kept = []
        leaves = _leaves(self.grammar, origin, _shape(self.grammar, origin)[1])
        for (text, after), first in zip(leaves, memo.ahead.firsts, strict=True):
            if first == token:
                rest = text[memo.offset + len(data) :]
                kept.append(State(((rest, after),), False) if rest else after)
        return union(kept)


def _shorter(ahead: Lookahead, data: bytes) -> Lookahead | None:
    """Return what is left of a lookahead after its first forced token."""
    if len(ahead.forced) == 1:
        return ahead.then
    rest = ahead.forced[1:]
    return Lookahead(rest[:1], rest, ahead.text[len(data) :], ahead.then)


def _shape(grammar: Grammar, state: State) -> tuple[Shape, int]:
    """Return the shape of the lookahead from a state, and how many bytes it reaches."""
    if len(state.edges) == 1 and not state.accepting:
        label, target = state.edges[0]
        after = grammar.state_of(target)
        if not after.edges:
            return ((label, True),), len(label) + REACH
        if after.ahead is None:
            after.ahead = _nested(grammar, after, REACH)
        if after.ahead[1] <= MAX_LEAVES:
            return ((label, after.ahead[0]),), len(label) + REACH
    labels = [label for label, _ in state.edges]
    forced = 0 if state.accepting else len(common_prefix(labels))
    for reach in (REACH, 2, 0):
        found, count = _nested(grammar, state, forced + reach)
        if count <= MAX_LEAVES:
            break
    return found, forced + reach


def _nested(grammar: Grammar, state: State, reach: int) -> tuple[Shape, int]:
    """Return the labels within reach, and how many continuations they make."""
    parts: list[object] = []
    leaves = count = 0
    behind: object = None
    seen: tuple[object, int] = (None, 0)
    for label, target in state.edges:
        here = (target, len(label))
        if here != seen:  # options of one kind have the same target: look past it once
            seen = here
            if len(label) >= reach:
                behind, count = not grammar.goes_on(target), 1
            elif not (after := grammar.state_of(target)).edges:
                behind, count = True, 1
            else:
                behind, count = _nested(grammar, after, reach - len(label))
        parts.append((label, behind))
        leaves += count
    if state.accepting:
        parts.append(None)
        leaves += 1
    return tuple(parts), leaves


def _leaves(grammar: Grammar, state: State, reach: int) -> list[tuple[bytes, State]]:
    """Return every continuation within reach and the state after it, in the order of the shape."""
    found: list[tuple[bytes, State]] = []
    for label, target in state.edges:
        after = grammar.state_of(target)
        left = reach - len(label)
        if not after.edges or left <= 0:
            found.append((label, after))
        else:
            found.extend((label + text, end) for text, end in _leaves(grammar, after, left))
    if state.accepting:
        found.append((b"", END))
    return found


def lookahead(vocabulary: Vocabulary, end_token: int, shape: Shape) -> Lookahead:
    """Return the lookahead of a shape, computed once per shape."""
    known: dict[tuple[int, Shape], Lookahead] = vocabulary.lookaheads
    key = (end_token, shape)
    found = known.get(key)
    if found is None:
        vocabulary.kept += len(_spelled(shape))
        if vocabulary.kept > MAX_KEPT:
            known.clear()
            vocabulary.kept = 0
        found = known[key] = _look(vocabulary, end_token, shape)
    return found


def _look(vocabulary: Vocabulary, end_token: int, shape: Shape) -> Lookahead:
    leaves = _spelled(shape)
    if leaves == [(b"", True)]:
        return NOTHING
    encoded = [_encoded(vocabulary, end_token, text, complete) for text, complete in leaves]
    texts = [text for text, _ in leaves]
    forced = common_tokens(encoded)
    if not forced:
        return _choice(vocabulary, end_token, texts, encoded)
    if forced == (end_token,):
        return Lookahead(forced, forced)
    text = b"".join(map(vocabulary.spelling, forced))
    rest = [tokens[len(forced) :] for tokens in encoded]
    if not all(rest):
        return Lookahead(forced[:1], forced, text)
    then = _choice(vocabulary, end_token, [whole[len(text) :] for whole in texts], rest)
    return Lookahead(forced[:1], forced, text, then)


def _spelled(shape: Shape) -> list[tuple[bytes, bool]]:
    """Return every continuation of a shape, and whether it is complete."""
    found: list[tuple[bytes, bool]] = []
    for part in shape:
        if part is None:
            found.append((b"", True))
            continue
        assert isinstance(part, tuple)
        label, behind = part
        if isinstance(behind, bool):
            found.append((label, behind))
        else:
            found.extend((label + text, complete) for text, complete in _spelled(behind))
    return found


def _encoded(vocabulary: Vocabulary, end: int, text: bytes, complete: bool) -> tuple[int, ...]:
    """Encode a continuation; the last word of an unfinished one may still grow and is dropped."""
    if not text:
        return (end,)
    return vocabulary.encode(text) if complete else vocabulary.settled(text)


def _choice(
    vocabulary: Vocabulary, end: int, texts: list[bytes], encoded: list[tuple[int, ...]]
) -> Lookahead:
    firsts = [tokens[0] for tokens in encoded]
    allowed = tuple(sorted(set(firsts)))
    ambiguous = {
        token
        for token in allowed
        if token != end
        for text, first in zip(texts, firsts, strict=True)
        if first != token and text.startswith(vocabulary.spelling(token))
    }
    return Lookahead(
        allowed, ambiguous=frozenset(ambiguous), firsts=tuple(firsts) if ambiguous else ()
    )


def common_tokens(encoded: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the longest common prefix of encodings."""
    first, last = min(encoded), max(encoded)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[:length]
