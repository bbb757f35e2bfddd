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
    common: bool = False
    """Whether other trees share this very node, so that a walk over trees can skip it; it says
    nothing about the text."""


GrammarNode: TypeAlias = Literal | IntRange | Text | Alternatives | Sequence
