"""What grammars are made of: forms put together, measured and spelled (see `waggle.core.forms`).

Invariant: a form that passes `measured` is sound: bounded, with something to offer at every choice.
"""

from __future__ import annotations

import json
from typing import AnyStr

from waggle.core.errors import ConfigError
from waggle.core.forms import Alternatives, GrammarNode, IntRange, Literal, Sequence, Text

MAX_FORMS = 200_000
"""Bound on the size of a grammar; one beyond it is refused rather than walked slowly."""
MAX_INTEGERS = 10_000
"""Bound on the width of one integer range."""


def chain(*parts: GrammarNode | str) -> Sequence:
    """Concatenate forms; plain strings become literals."""
    return Sequence(tuple(as_form(part) for part in parts))


def choice(*options: GrammarNode | str) -> Alternatives:
    """Offer forms as alternatives; plain strings become literals."""
    return Alternatives(tuple(as_form(option) for option in options))


def as_form(value: GrammarNode | str) -> GrammarNode:
    """Return a form; a plain string becomes a literal."""
    return Literal(value) if isinstance(value, str) else value


def common_prefix(labels: list[AnyStr]) -> AnyStr:
    """Return the longest common prefix of strings."""
    first, last = min(labels), max(labels)
    if last.startswith(first):
        return first
    length = next(i for i, (x, y) in enumerate(zip(first, last, strict=False)) if x != y)
    return first[:length]


def escaped(text: str) -> bytes:
    """Return a text in ASCII; what is outside stands inside a JSON document and is escaped."""
    if text.isascii():
        return text.encode()
    return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text).encode()


def enumerable(form: Alternatives) -> list[GrammarNode]:
    """Return the alternatives that can be listed, or the free text if it is all there is."""
    listed: list[GrammarNode] = [o for o in form.options if not isinstance(o, Text)]
    return listed or list(form.options)


def spells(form: GrammarNode) -> bool:
    """Whether some string of a form is not empty; no where that is not seen at once."""
    if isinstance(form, Literal):
        return bool(form.text)
    if isinstance(form, Sequence):
        return any(isinstance(part, Literal) and part.text for part in form.parts)
    if isinstance(form, Alternatives):
        return any(isinstance(option, Literal) and option.text for option in form.options)
    return isinstance(form, IntRange)


def measured(form: GrammarNode, known: dict[int, int]) -> int:
    """Return the length in bytes of the longest string of a form, refusing bad forms."""
    if isinstance(form, Literal):
        return len(form.text) if form.text.isascii() else len(escaped(form.text))
    size = known.get(id(form))
    if size is None:
        if len(known) >= MAX_FORMS:
            raise ConfigError(f"a grammar may have at most {MAX_FORMS} forms; offer fewer options")
        size = known[id(form)] = _measure(form, known)
    return size


def _measure(form: GrammarNode, known: dict[int, int]) -> int:
    if isinstance(form, Sequence):
        return sum([measured(part, known) for part in form.parts])
    if isinstance(form, IntRange):
        if not 0 <= form.high - form.low < MAX_INTEGERS:
            raise ConfigError(
                f"integer range {form.low}..{form.high} is empty or too wide; narrow it"
            )
        return max(len(str(form.low)), len(str(form.high)))
    if isinstance(form, Alternatives):
        if not form.options:
            raise ConfigError("a choice needs at least one option; give it one")
        return max([measured(option, known) for option in form.options])
    return 0


def radix(words: list[str], shared: dict[tuple[str, ...], GrammarNode]) -> GrammarNode:
    """Return sorted words as a form that shares heads; equal sets of tails become one form."""
    key = tuple(words)
    known = shared.get(key)
    if known is not None:
        return known
    options: list[GrammarNode] = [Literal("")] if not words[0] else []
    index = len(options)
    while index < len(words):
        stop = index + 1
        while stop < len(words) and words[stop][0] == words[index][0]:
            stop += 1
        head = common_prefix([words[index], words[stop - 1]])
        tails = [word[len(head) :] for word in words[index:stop]]
        options.append(chain(head, radix(tails, shared) if tails != [""] else ""))
        index = stop
    found = shared[key] = options[0] if len(options) == 1 else Alternatives(tuple(options))
    return found
