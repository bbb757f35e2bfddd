"""The nodes of a grammar: a neutral tree of text forms, independent of any tokenizer.

Equal parts share one node, so a tree stays small: walk it as a graph.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Literal(NamedTuple):
    """A fixed text."""

    text: str


class IntRange(NamedTuple):
    """One integer in an inclusive range, in decimal without sign or leading zero."""

    low: int
    high: int


class Text(NamedTuple):
    """The content of a JSON string of at most `limit` characters, with JSON escapes."""

    limit: int


class Alternatives(NamedTuple):
    """Exactly one of several nodes."""

    options: tuple[GrammarNode, ...]


class Sequence(NamedTuple):
    """Several nodes in order."""

    parts: tuple[GrammarNode, ...]
    common: bool = False
    """Whether other trees share this node, so that a walk over several trees can skip it; it has no
    effect on the text."""


GrammarNode: TypeAlias = Literal | IntRange | Text | Alternatives | Sequence
