"""A finite regular template language over bytes, walked lazily.

A grammar is a tree of literals, alternatives and bounded integers, with parts shared where they are
the same. Nothing is compiled ahead: a walk unfolds what it meets, so a view with thousands of
admissible records costs what one of them does. States are determinised while walking, too.

Invariant: every string the walk can spell is a prefix of an admissible string, and every
admissible string can be spelled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, AnyStr

from waggle.core.errors import ConfigError

MAX_PIECES = 200_000
"""Bound on the size of a grammar; one beyond it is refused rather than walked slowly."""
MAX_INTEGERS = 10_000
"""Bound on the width of one integer range."""

Item = tuple[bytes, "Rest | State | None"]
"""A label to be spelled and what follows: a rest, a state a walk has narrowed to, or the end."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of these pieces."""

    options: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """These pieces one after the other."""

    parts: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Integer:
    """A decimal integer between two bounds, both included."""

    low: int
    high: int


Piece = Literal | Choice | Chain | Integer


def chain(*parts: Piece | str) -> Chain:
    """Concatenate pieces; plain strings become literals."""
    return Chain(tuple(_piece(part) for part in parts))


def choice(*options: Piece | str) -> Choice:
    """Offer pieces as alternatives; plain strings become literals."""
    return Choice(tuple(_piece(option) for option in options))


def _piece(value: Piece | str) -> Piece:
    return Literal(value) if isinstance(value, str) else value


class State:
    """Where a walk stands: the labels still to be spelled, and whether it may stop here.

    States are told apart by identity; `memo` holds what a constraint has found out about this one.
    """

    __slots__ = ("accepting", "items", "memo")

    def __init__(self, items: tuple[Item, ...], accepting: bool) -> None:
        self.items = items
        self.accepting = accepting
        self.memo: Any = None

    @property
    def finished(self) -> bool:
        """Whether nothing can follow."""
        return not self.items


END = State((), True)
"""The state after a complete string."""


class Rest:
    """A piece still to be spelled and what follows it; told apart by identity."""

    __slots__ = ("after", "forced", "piece", "state")

    def __init__(self, piece: Piece, after: Rest | None) -> None:
        self.piece = piece
        self.after = after
        self.state: State | None = None
        self.forced: tuple[bytes, Rest | None] | None = None


class Grammar:
    """A language of byte strings, unfolded while it is walked."""

    __slots__ = ("_rests", "_root", "_size")

    def __init__(self, piece: Piece, size: int) -> None:
        self._size = size
        self._rests: dict[tuple[int, int], Rest] = {}
        self._root: Rest | None = self._rest(piece, None)

    @staticmethod
    def of(piece: Piece | str) -> Grammar:
        """Check a piece and return its language."""
        root = _piece(piece)
        return Grammar(root, _size(root, {}))

    @staticmethod
    def of_strings(texts: Iterable[str]) -> Grammar:
        """Return an explicit set of admissible strings, sharing heads and tails."""
        words = sorted(set(texts))
        if not words:
            raise ConfigError("a grammar needs at least one admissible string; give it one")
        return Grammar.of(_radix(words, {}))

    def longest(self) -> int:
        """Return the length in bytes of the longest admissible string."""
        return self._size

    def start(self) -> State:
        """Return the state before the first byte."""
        return self.closure(self._root)

    def closure(self, target: Rest | State | None) -> State:
        """Return the state in which something is still to be spelled."""
        if target is None:
            return END
        if isinstance(target, State):
            return target
        if target.state is None:
            items: dict[Item, None] = {}
            accepting = self._unfold(target.piece, target.after, items)
            target.state = State(tuple(items), accepting)
        return target.state

    def _rest(self, piece: Piece, after: Rest | None) -> Rest:
        """Return the rest of a piece and what follows, the same one for the same two."""
        key = (id(piece), id(after))
        known = self._rests.get(key)
        if known is None:
            known = self._rests[key] = Rest(piece, after)
        return known

    def _chain(self, parts: tuple[Piece, ...], after: Rest | None) -> Rest | None:
        for part in reversed(parts):
            after = self._rest(part, after)
        return after

    def _unfold(self, piece: Piece, after: Rest | None, items: dict[Item, None]) -> bool:
        """Add what a piece may begin with; whether all of it may also be nothing."""
        match piece:
            case Literal(text):
                return self._label(text.encode(), after, items)
            case Integer(low, high):
                for value in range(low, high + 1):
                    self._label(b"%d" % value, after, items)
                return False
            case Chain(parts):
                first = self._chain(parts, after)
                return first is None or self._unfold(first.piece, first.after, items)
            case Choice(options):
                empty = [self._unfold(option, after, items) for option in options]
                return any(empty)

    def _label(self, text: bytes, after: Rest | None, items: dict[Item, None]) -> bool:
        """Add a label that reaches to the next choice, so that a walk meets choices only."""
        forced, target = self._forced(after)
        if text or forced:
            items[(text + forced, target)] = None
            return False
        return target is None or self._unfold(target.piece, target.after, items)

    def _forced(self, rest: Rest | None) -> tuple[bytes, Rest | None]:
        """Return the literal text a rest begins with, and what is left behind it."""
        if rest is None:
            return b"", None
        if rest.forced is None:
            rest.forced = b"", rest
            if isinstance(rest.piece, Literal):
                text, target = self._forced(rest.after)
                rest.forced = rest.piece.text.encode() + text, target
            elif isinstance(rest.piece, Chain):
                rest.forced = self._forced(self._chain(rest.piece.parts, rest.after))
        return rest.forced

    def advance(self, state: State, data: bytes) -> State | None:
        """Spell some bytes; None when no admissible string continues that way."""
        while len(state.items) == 1 and data:
            label, target = state.items[0]
            if len(data) < len(label):
                rest = State(((label[len(data) :], target),), False)
                return rest if label.startswith(data) else None
            if not data.startswith(label):
                return None
            state, data = self.closure(target), data[len(label) :]
        return self._advance_all(state, data) if data else state

    def _advance_all(self, state: State, data: bytes) -> State | None:
        reached: list[State] = []
        for label, target in state.items:
            if label.startswith(data):
                rest = label[len(data) :]
                reached.append(State(((rest, target),), False) if rest else self.closure(target))
            elif data.startswith(label):
                further = self.advance(self.closure(target), data[len(label) :])
                if further is not None:
                    reached.append(further)
        return merge(reached) if reached else None

    def forced(self, state: State) -> tuple[bytes, State]:
        """Return the bytes every continuation shares, and the state after them."""
        spelled = b""
        while state.items and not state.accepting:
            common = common_prefix([label for label, _ in state.items])
            if not common:
                break
            following = self.advance(state, common)
            assert following is not None
            spelled, state = spelled + common, following
        return spelled, state

    def accepts(self, text: str) -> bool:
        """Whether the text is one of the admissible strings."""
        state = self.advance(self.start(), text.encode())
        return state is not None and state.accepting

    def branches(self, state: State) -> list[State]:
        """Split a state by the next byte, in byte order."""
        groups: dict[int, list[Item]] = {}
        for item in state.items:
            groups.setdefault(item[0][0], []).append(item)
        return [State(tuple(groups[byte]), False) for byte in sorted(groups)]


def common_prefix(labels: list[AnyStr]) -> AnyStr:
    """Return the longest common prefix of strings."""
    first, last = min(labels), max(labels)
    if last.startswith(first):
        return first
    length = next(i for i, (x, y) in enumerate(zip(first, last, strict=False)) if x != y)
    return first[:length]


def merge(states: list[State]) -> State:
    """Return the state that allows what any of the states allows."""
    if len(states) == 1:
        return states[0]
    items = dict.fromkeys(item for state in states for item in state.items)
    return State(tuple(items), any(state.accepting for state in states))


def _size(piece: Piece, known: dict[int, int]) -> int:
    """Return the length in bytes of the longest string of a piece, refusing bad pieces."""
    size = known.get(id(piece))
    if size is None:
        if len(known) >= MAX_PIECES:
            raise ConfigError(f"a grammar may have at most {MAX_PIECES} parts; offer fewer options")
        size = known[id(piece)] = _measure(piece, known)
    return size


def _measure(piece: Piece, known: dict[int, int]) -> int:
    match piece:
        case Literal(text):
            # ASCII only, so that no token boundary falls inside a character.
            if not text.isascii():
                raise ConfigError(
                    f"grammar text {text[:40]!r} is not ASCII; escape it as JSON does"
                )
            return len(text)
        case Integer(low, high):
            if not 0 <= high - low < MAX_INTEGERS:
                raise ConfigError(f"integer range {low}..{high} is empty or too wide; narrow it")
            return max(len(str(low)), len(str(high)))
        case Chain(parts):
            return sum([_size(part, known) for part in parts])
        case Choice(options):
            if not options:
                raise ConfigError("a choice needs at least one option; give it one")
            return max([_size(option, known) for option in options])


def _radix(words: list[str], shared: dict[tuple[str, ...], Piece]) -> Piece:
    """Return sorted words as a piece that shares heads; equal sets of tails become one piece."""
    key = tuple(words)
    known = shared.get(key)
    if known is not None:
        return known
    options: list[Piece] = [Literal("")] if not words[0] else []
    index = len(options)
    while index < len(words):
        stop = index + 1
        while stop < len(words) and words[stop][0] == words[index][0]:
            stop += 1
        head = common_prefix([words[index], words[stop - 1]])
        tails = [word[len(head) :] for word in words[index:stop]]
        options.append(chain(head, _radix(tails, shared) if tails != [""] else ""))
        index = stop
    found = shared[key] = options[0] if len(options) == 1 else Choice(tuple(options))
    return found
