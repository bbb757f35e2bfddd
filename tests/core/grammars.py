"""Readers of a grammar, apart from the engine: whether it accepts a text, how long texts are."""

from __future__ import annotations

import json
import random
import re

from waggle.core.forms import Alternatives, GrammarNode, IntRange, Literal, Sequence, Text

_STRING = re.compile(r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-f]{4})')


def ends(node: GrammarNode, text: str, starts: set[int]) -> set[int]:
    """Return where a node can end when it begins at one of the starts."""
    if isinstance(node, Literal):
        return {i + len(node.text) for i in starts if text.startswith(node.text, i)}
    if isinstance(node, IntRange):
        words = [str(n) for n in range(node.low, node.high + 1)]
        return {i + len(w) for i in starts for w in words if text.startswith(w, i)}
    if isinstance(node, Alternatives):
        return set().union(*(ends(option, text, starts) for option in node.options))
    if isinstance(node, Sequence):
        for part in node.parts:
            starts = ends(part, text, starts)
        return starts
    return _text_ends(node, text, starts)


def _text_ends(node: Text, text: str, starts: set[int]) -> set[int]:
    reached, current = set(starts), set(starts)
    for _ in range(node.limit):
        matches = (_STRING.match(text, i) for i in current)
        current = {m.end() for m in matches if m}
        reached |= current
    return reached


def accepts(node: GrammarNode, text: str) -> bool:
    return len(text) in ends(node, text, {0})


def spell(node: GrammarNode, rng: random.Random) -> str:
    """Draw a text of the grammar."""
    if isinstance(node, Literal):
        return node.text
    if isinstance(node, IntRange):
        return str(rng.randint(node.low, node.high))
    if isinstance(node, Alternatives):
        return spell(rng.choice(node.options), rng)
    if isinstance(node, Sequence):
        return "".join(spell(part, rng) for part in node.parts)
    return "7" * rng.randint(0, node.limit)


def max_length(node: GrammarNode) -> int:
    """Return the length of the longest text, in ASCII; a free text counts as empty."""
    if isinstance(node, Literal):
        return len(json.dumps(node.text)) - 2 - sum(map(node.text.count, '"\\'))
    if isinstance(node, IntRange):
        return max(len(str(node.low)), len(str(node.high)))
    if isinstance(node, Alternatives):
        return max(map(max_length, node.options))
    return sum(map(max_length, node.parts)) if isinstance(node, Sequence) else 0
