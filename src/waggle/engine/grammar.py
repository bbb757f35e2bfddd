"""A finite regular template language over bytes, walked lazily.

A grammar is a sequence of literals, alternatives and bounded integers. It compiles to a directed
acyclic automaton whose edges carry byte strings, so thousands of admissible records that differ in
a few fields cost a few dozen nodes. States are determinised while walking, never ahead of time.

Invariant: every string the walk can spell is a prefix of an admissible string, and every
admissible string can be spelled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from waggle.core.errors import ConfigError

MAX_NODES = 200_000
"""Bound on automaton size; a grammar beyond it is refused rather than walked slowly."""
MAX_INTEGERS = 10_000
"""Bound on the width of one integer range."""

Item = tuple[bytes, "int | State"]
"""A label still to be spelled and where it leads: a node, or a state a walk has narrowed to."""


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


def _bytes(text: str) -> bytes:
    """Encode grammar text; ASCII only, so that no token boundary falls inside a character."""
    if not text.isascii():
        raise ConfigError(f"grammar text {text[:40]!r} is not ASCII; escape it as JSON does")
    return text.encode()


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


@dataclass(slots=True)
class Grammar:
    """An acyclic automaton with byte-string edges; node 0 is the end."""

    edges: list[tuple[Item, ...]] = field(default_factory=lambda: [()])
    root: int = 0
    _closures: dict[int, State] = field(default_factory=dict)

    @staticmethod
    def of(piece: Piece | str) -> Grammar:
        """Compile a piece."""
        grammar = Grammar()
        grammar.root = _compile(grammar, _piece(piece), 0, {})
        _compress(grammar)
        return grammar

    @staticmethod
    def of_strings(texts: Iterable[str]) -> Grammar:
        """Compile an explicit set of admissible strings, sharing heads and tails."""
        words = sorted({_bytes(text) for text in texts})
        if not words:
            raise ConfigError("a grammar needs at least one admissible string; give it one")
        grammar = Grammar()
        grammar.root = _radix(grammar, words, {})
        _compress(grammar)
        return grammar

    def start(self) -> State:
        """Return the state before the first byte."""
        return self.closure(self.root)

    def closure(self, node: int | State) -> State:
        """Return the state on arrival at a node, empty edges followed."""
        if isinstance(node, State):
            return node
        known = self._closures.get(node)
        if known is None:
            known = self._closures[node] = merge(self._arrive(node))
        return known

    def _arrive(self, node: int) -> list[State]:
        if node == 0:
            return [END]
        found = [State(tuple(edge for edge in self.edges[node] if edge[0]), False)]
        found.extend(self.closure(target) for label, target in self.edges[node] if not label)
        return found

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

    def longest(self) -> int:
        """Return the length in bytes of the longest admissible string."""
        reach = [0] * len(self.edges)
        for node in range(1, len(self.edges)):  # targets are compiled before what leads to them
            reach[node] = max(len(label) + reach[_node_of(to)] for label, to in self.edges[node])
        return reach[self.root]

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


def common_prefix(labels: list[bytes]) -> bytes:
    """Return the longest common prefix of byte strings."""
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


def _node_of(target: int | State) -> int:
    assert isinstance(target, int), "only walks lead to states"
    return target


def _node(grammar: Grammar, edges: tuple[Item, ...], shared: dict[tuple[Item, ...], int]) -> int:
    known = shared.get(edges)
    if known is not None:
        return known
    if len(grammar.edges) >= MAX_NODES:
        raise ConfigError(f"a grammar may have at most {MAX_NODES} nodes; offer fewer alternatives")
    grammar.edges.append(edges)
    shared[edges] = len(grammar.edges) - 1
    return shared[edges]


def _compile(
    grammar: Grammar, piece: Piece, after: int, shared: dict[tuple[Item, ...], int]
) -> int:
    match piece:
        case Literal(text):
            return _node(grammar, ((_bytes(text), after),), shared)
        case Chain(parts):
            for part in reversed(parts):
                after = _compile(grammar, part, after, shared)
            return after
        case Integer(low, high):
            if not 0 <= high - low < MAX_INTEGERS:
                raise ConfigError(f"integer range {low}..{high} is empty or too wide; narrow it")
            edges = tuple((str(value).encode(), after) for value in range(low, high + 1))
            return _node(grammar, edges, shared)
        case Choice(options):
            return _node(grammar, _fan(grammar, options, after, shared), shared)


def _compress(grammar: Grammar) -> None:
    """Let every label reach to the next choice, so that a walk meets choices only.

    Nodes come after what they lead to, hence one pass in order sees finished targets.
    """
    for node in range(1, len(grammar.edges)):
        edges: dict[Item, None] = {}
        for label, target in grammar.edges[node]:
            further = grammar.edges[_node_of(target)]
            if target and not label:
                edges.update(dict.fromkeys(further))
            elif len(further) == 1 and further[0][0]:
                edges[(label + further[0][0], further[0][1])] = None
            else:
                edges[(label, target)] = None
        grammar.edges[node] = tuple(edges)


def _fan(
    grammar: Grammar,
    options: tuple[Piece, ...],
    after: int,
    shared: dict[tuple[Item, ...], int],
) -> tuple[Item, ...]:
    if not options:
        raise ConfigError("a choice needs at least one option; give it one")
    edges: dict[Item, None] = {}
    for option in options:
        if isinstance(option, Literal):
            edges[(_bytes(option.text), after)] = None
        else:
            edges[(b"", _compile(grammar, option, after, shared))] = None
    return tuple(edges)


def _radix(grammar: Grammar, words: list[bytes], shared: dict[tuple[Item, ...], int]) -> int:
    """Build the node for sorted suffixes; equal sub-tries become one node."""
    edges: list[Item] = []
    index = 0
    while index < len(words):
        if not words[index]:
            edges.append((b"", 0))
            index += 1
            continue
        stop = index + 1
        while stop < len(words) and words[stop][0] == words[index][0]:
            stop += 1
        head = common_prefix([words[index], words[stop - 1]])
        tails = [word[len(head) :] for word in words[index:stop]]
        edges.append((head, 0 if tails == [b""] else _radix(grammar, tails, shared)))
        index = stop
    return _node(grammar, tuple(edges), shared)
