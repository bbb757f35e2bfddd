"""The nodes of a grammar: a neutral tree of text forms, independent of any tokenizer.

Nodes are shared where their text is, so a tree stays small: walk it as a graph.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Literal(NamedTuple):
    """Exactly this text."""

    text: str


class IntRange(NamedTuple):
    """One integer of an inclusive range, in decimal without sign or leading zero."""

    low: int
    high: int


class Text(NamedTuple):
    """The inside of a JSON string of at most `limit` characters, escaped as JSON escapes."""

    limit: int


class Alternatives(NamedTuple):
    """Exactly one of these."""

    options: tuple[GrammarNode, ...]


class Sequence(NamedTuple):
    """All of these, one after the other."""

    parts: tuple[GrammarNode, ...]


GrammarNode: TypeAlias = Literal | IntRange | Text | Alternatives | Sequence


class Kept:
    """Nodes that are made once and stand in many trees, by identity."""

    def __init__(self) -> None:
        self._nodes: dict[int, GrammarNode] = {}

    def __contains__(self, node: GrammarNode) -> bool:
        return id(node) in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: GrammarNode) -> None:
        """Keep a node, and so its identity."""
        self._nodes[id(node)] = node

    def clear(self) -> None:
        """Keep no node any longer."""
        self._nodes.clear()


kept = Kept()
"""What other trees have, too: who walks trees need not look at it again for each."""
