"""From the neutral grammar of a view to the engine's: what a constrained answer may spell.

A free response text is not enumerable, so it stands for the responses the view itself offers, as
random-legal has it; where none is offered the response is empty. Texts outside ASCII are escaped,
which JSON reads as the same record. Invariant: every spelled text is an admissible record.
"""

from __future__ import annotations

import json

from waggle.core import grammar as neutral
from waggle.core.schema import View
from waggle.core.templates import grammar
from waggle.engine.grammar import Chain, Choice, Grammar, Integer, Literal, Piece


def view_grammar(view: View) -> Grammar:
    """Return the grammar of a view's admissible records, for the engine."""
    return Grammar.of(_piece(grammar(view), {}))


def _piece(node: neutral.GrammarNode, known: dict[int, Piece]) -> Piece:
    """Translate a node; shared nodes stay shared."""
    found = known.get(id(node))
    if found is None:
        found = known[id(node)] = _translate(node, known)
    return found


def _translate(node: neutral.GrammarNode, known: dict[int, Piece]) -> Piece:
    match node:
        case neutral.Literal(text):
            return Literal(_ascii(text))
        case neutral.IntRange(low, high):
            return Integer(low, high)
        case neutral.Text():
            return Literal("")
        case neutral.Alternatives(options):
            listed = [option for option in options if not isinstance(option, neutral.Text)]
            return Choice(tuple(_piece(option, known) for option in listed or options))
        case neutral.Sequence(parts):
            return Chain(tuple(_piece(part, known) for part in parts))


def _ascii(text: str) -> str:
    """Escape what is not ASCII; the text is already inside a JSON document."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else json.dumps(char)[1:-1] for char in text)
