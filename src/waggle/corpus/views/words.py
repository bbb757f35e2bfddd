"""Made-up words, names and sentences, in every spelling that a task may use.

A law must copy words that it has never seen, so harvested tasks draw theirs from everything a
tokenizer can spell: syllables, any letters, digits, hyphens and all cases. Sentences are made of
common English words or of made-up ones. The lists are in `texts.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from waggle.core import keys
from waggle.core.bounds import RESERVED
from waggle.core.schema import MAX_ACTION, MAX_FACT, WAIT
from waggle.corpus.views.rng import Draw

TEXTS: Mapping[str, Any] = tomllib.loads(
    files(__package__).joinpath("texts.toml").read_text(encoding="utf-8")
)
"""Word lists and phrases of all made-up tasks."""
_WORDS = TEXTS["words"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CASES: tuple[Callable[[str], str], ...] = (
    str.upper, str.upper, str.upper, str.lower, str.lower, str.capitalize, str.swapcase,
)  # fmt: skip


def stem(draw: Draw) -> str:
    """Make up a lower-case stem: syllables, any letters, a common word, or letters with digits."""
    kind = draw.below(20)
    if kind < 8:
        return "".join(
            _one(draw, "onsets") + _one(draw, "rimes") for _ in range(draw.between(1, 3))
        )
    if kind < 14:
        return "".join(draw.choice(_LETTERS) for _ in range(draw.between(1, 8)))
    if kind < 18:
        return word(draw)
    return draw.choice(_LETTERS) + str(draw.below(1000))


def case(draw: Draw) -> Callable[[str], str]:
    """Choose the letter case for a list of words."""
    return draw.choice(_CASES)


def name(draw: Draw, style: Callable[[str], str] = str.lower) -> str:
    """Make up a name of one stem, or of two joined by a hyphen, an underscore or a space."""
    if draw.chance(80):
        return style(stem(draw))
    return style(stem(draw) + draw.choice("-_ ") + stem(draw))


def word(draw: Draw) -> str:
    """Choose a common word."""
    return _one(draw, draw.choice(("verbs", "nouns", "adjectives")))


def key(draw: Draw, *, common: bool = False) -> str:
    """Make up a key that is allowed in a view, or choose a common word as one."""
    while True:
        if common:
            made = word(draw)
        else:
            made = stem(draw) if draw.chance(85) else f"{stem(draw)}_{stem(draw)}"
        if keys.leak((made,)) is None and made not in RESERVED:
            return made


def actions(
    draw: Draw, count: int, style: Callable[[str], str] | None = None, *, common: bool = False
) -> list[str]:
    """Make up `count` different actions: words in one letter case, or one word numbered."""
    style = style or case(draw)
    if count > 1 and draw.chance(30):
        verb, join, start = name(draw, style), draw.choice(("_", " ", "-", "")), draw.below(3)
        return [f"{verb[:30]}{join}{start + i}" for i in range(count)]
    made: dict[str, None] = {}
    while len(made) < count:
        if common:
            found = style(word(draw))
        else:
            found = str(draw.below(100)) if draw.chance(4) else name(draw, style)
        if found not in (WAIT, "") and ":" not in found:
            made[found[:MAX_ACTION]] = None
    return list(made)


def sentence(draw: Draw) -> str:
    """Make up one sentence of a goal, of common or of made-up words."""
    if draw.chance(25):
        words = [stem(draw) for _ in range(draw.between(2, 7))]
        return " ".join(words).capitalize() + draw.choice((".", ".", ".", "!"))
    text = f"{_one(draw, 'verbs')} the {_noun(draw)} {_one(draw, 'places')} {_one(draw, 'times')}"
    while "{" in text:
        text = text.replace("{n}", _noun(draw), 1).replace("{a}", _one(draw, "adjectives"), 1)
    return " ".join(text.split()).capitalize() + "."


def goal(draw: Draw) -> str:
    """Make up a goal of one to six sentences."""
    return " ".join(sentence(draw) for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 6))))


def task(draw: Draw) -> str:
    """Make up the name of a task and its substrate."""
    return f"{stem(draw)}/{name(draw)}"[:MAX_FACT]


def _noun(draw: Draw) -> str:
    plain = _one(draw, "nouns") if draw.chance(70) else stem(draw)
    return f"{plain} {draw.choice(_LETTERS).upper()}" if draw.chance(10) else plain


def _one(draw: Draw, kind: str) -> str:
    found: str = draw.choice(_WORDS[kind])
    return found
