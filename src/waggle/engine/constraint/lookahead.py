"""What may be spelled next, by shape: one lookahead serves every grammar that looks alike there.

Views differ in handles and claims, their records hardly in form: after `"novelty":` come the same
digits and then the same comma, whatever the view. A shape is the labels a lookahead can meet,
without the nodes behind them; tokenizing it is the dear part of a walk, so it is done once per
shape and kept with the vocabulary. Invariant: a look is a function of its shape alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from waggle.engine.constraint.form_making import common_prefix
from waggle.engine.constraint.grammar import Grammar
from waggle.engine.constraint.openings import LOOKAHEAD
from waggle.engine.constraint.states import END, State
from waggle.engine.constraint.vocabulary import Vocabulary

MAX_LEAVES = 96
"""Continuations encoded at one point; beyond it the lookahead is shortened."""
MAX_KEPT = 500_000
"""Continuations in the shapes that a vocabulary remembers, of a tenth of a kilobyte each."""

Shape = tuple[object, ...]
"""Nested labels: (label, shape behind it), (label, True) at an end, None where it may stop."""


@dataclass(frozen=True, slots=True)
class Look:
    """The tokens that may come next: one means forced, none means the end."""

    tokens: tuple[int, ...]
    run: tuple[int, ...] = ()
    """Forced tokens from here on; empty where there is a choice."""
    text: bytes = b""
    """What the forced tokens spell."""
    then: Look | None = None
    """What follows the forced tokens, where their lookahead has seen it already."""
    parting: frozenset[int] = frozenset()
    """Tokens that also begin continuations which the tokenizer would have begun otherwise."""
    firsts: tuple[int, ...] = ()
    """Where tokens part: the first token of each continuation, in the order of the shape."""

    @property
    def parts(self) -> bool:
        """Whether its lookahead will be needed again, where tokens part here or further on."""
        return bool(self.parting) or (self.then is not None and self.then.parts)


NOTHING = Look(())


class Memo:
    """What is known of a state, and the lookahead it was seen in: that of `origin`, `cut` bytes in.

    Bound to a vocabulary, since one grammar may be walked with several. A state's own lookahead has
    no origin, and one that nobody will look through again names none: states that do not point back
    at one another go when their row does, and leave nothing for the garbage collector.
    """

    __slots__ = ("cut", "jump", "leaps", "look", "origin", "vocabulary")

    def __init__(
        self, vocabulary: Vocabulary, look: Look, origin: State | None = None, cut: int = 0
    ) -> None:
        self.vocabulary = vocabulary
        self.look = look
        self.origin = origin
        self.cut = cut
        self.leaps: dict[int, tuple[State, tuple[int, ...]]] = {}
        """Where a chosen token leads, with all it forces."""
        self.jump: tuple[State, tuple[int, ...]] | None = None
        """Where the forced tokens from here lead, with all of them."""


def shape(grammar: Grammar, state: State) -> Shape:
    """Return the shape of the lookahead from a state."""
    return _lookahead(grammar, state)[0]


def leaves(grammar: Grammar, state: State) -> list[tuple[bytes, State]]:
    """Return every continuation of the lookahead and the state behind it, in shape order."""
    return _ends(grammar, state, _lookahead(grammar, state)[1])


def _lookahead(grammar: Grammar, state: State) -> tuple[Shape, int]:
    """Return the shape of a state and how many bytes it reaches."""
    if len(state.items) == 1 and not state.accepting:
        label, target = state.items[0]
        after = grammar.closure(target)
        if not after.items:
            return ((label, True),), len(label) + LOOKAHEAD
        if after.ahead is None:
            after.ahead = _nest(grammar, after, LOOKAHEAD)
        if after.ahead[1] <= MAX_LEAVES:
            return ((label, after.ahead[0]),), len(label) + LOOKAHEAD
    labels = [label for label, _ in state.items]
    forced = 0 if state.accepting else len(common_prefix(labels))
    for ahead in (LOOKAHEAD, 2, 0):
        found, count = _nest(grammar, state, forced + ahead)
        if count <= MAX_LEAVES:
            break
    return found, forced + ahead


def _ends(grammar: Grammar, state: State, reach: int) -> list[tuple[bytes, State]]:
    found: list[tuple[bytes, State]] = []
    for label, target in state.items:
        after = grammar.closure(target)
        left = reach - len(label)
        if after.finished or left <= 0:
            found.append((label, after))
        else:
            found.extend((label + text, end) for text, end in _ends(grammar, after, left))
    if state.accepting:
        found.append((b"", END))
    return found


def _nest(grammar: Grammar, state: State, reach: int) -> tuple[Shape, int]:
    """Return the labels within reach, and how many continuations they make."""
    parts: list[object] = []
    leaves = count = 0
    behind: object = None
    seen: tuple[object, int] = (None, 0)
    for label, target in state.items:
        here = (target, len(label))
        if here != seen:  # options of one kind lead to one place: look behind them once
            seen = here
            if len(label) >= reach:
                behind, count = not grammar.goes_on(target), 1
            elif not (after := grammar.closure(target)).items:
                behind, count = True, 1
            else:
                behind, count = _nest(grammar, after, reach - len(label))
        parts.append((label, behind))
        leaves += count
    if state.accepting:
        parts.append(None)
        leaves += 1
    return tuple(parts), leaves


def look(vocabulary: Vocabulary, end_token: int, form: Shape) -> Look:
    """Return what may follow, for a shape."""
    known: dict[tuple[int, Shape], Look] = vocabulary.looks
    key = (end_token, form)
    found = known.get(key)
    if found is None:
        vocabulary.kept += len(spell(form))
        if vocabulary.kept > MAX_KEPT:
            known.clear()
            vocabulary.kept = 0
        found = known[key] = _look(vocabulary, end_token, form)
    return found


def _look(vocabulary: Vocabulary, end_token: int, form: Shape) -> Look:
    leaves = spell(form)
    if leaves == [(b"", True)]:
        return NOTHING
    spelled = [_trusted(vocabulary, end_token, text, complete) for text, complete in leaves]
    texts = [text for text, _ in leaves]
    run = _shared_run(spelled)
    if not run:
        return _choice(vocabulary, end_token, texts, spelled)
    if run == (end_token,):
        return Look(run, run)
    text = b"".join(map(vocabulary.spelling, run))
    rest = [tokens[len(run) :] for tokens in spelled]
    if not all(rest):
        return Look((run[0],), run, text)
    then = _choice(vocabulary, end_token, [whole[len(text) :] for whole in texts], rest)
    return Look((run[0],), run, text, then)


def spell(form: Shape) -> list[tuple[bytes, bool]]:
    """Return every continuation of a shape, and whether it is a complete one."""
    found: list[tuple[bytes, bool]] = []
    for part in form:
        if part is None:
            found.append((b"", True))
            continue
        assert isinstance(part, tuple)
        label, behind = part
        if isinstance(behind, bool):
            found.append((label, behind))
        else:
            found.extend((label + text, complete) for text, complete in spell(behind))
    return found


def _trusted(vocabulary: Vocabulary, end: int, text: bytes, complete: bool) -> tuple[int, ...]:
    """Encode a leaf; the last word of an unfinished one may still grow, so it is dropped."""
    if not text:
        return (end,)
    return vocabulary.encode(text) if complete else vocabulary.settled(text)


def _choice(
    vocabulary: Vocabulary, end: int, texts: list[bytes], spelled: list[tuple[int, ...]]
) -> Look:
    firsts = [tokens[0] for tokens in spelled]
    offered = tuple(sorted(set(firsts)))
    parting = {
        token
        for token in offered
        if token != end
        for text, first in zip(texts, firsts, strict=True)
        if first != token and text.startswith(vocabulary.spelling(token))
    }
    return Look(offered, (), b"", None, frozenset(parting), tuple(firsts) if parting else ())


def _shared_run(encodings: list[tuple[int, ...]]) -> tuple[int, ...]:
    first = min(encodings)
    last = max(encodings)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[:length]
