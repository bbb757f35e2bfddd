"""Made-up words, names and sentences, of every spelling that a task may use.

A law must copy words that it has never seen, so harvested tasks draw theirs from everything a
tokenizer can spell: syllables, any letters, digits, hyphens and all cases. Sentences are made of
common English words or of made-up ones. Invariant: no word peculiar to a transfer task is in the
lists; a test compares them with those contracts.
"""

from __future__ import annotations

from collections.abc import Callable

from waggle.core import keys
from waggle.core.bounds import RESERVED
from waggle.core.schema import MAX_ACTION, MAX_FACT, WAIT
from waggle.corpus.views.rng import Draw

_ONSETS = ("b", "br", "c", "d", "f", "g", "gl", "h", "j", "k", "l", "m", "n", "p", "pr", "qu", "r",
           "s", "sh", "sk", "st", "t", "tr", "v", "w", "z", "")  # fmt: skip
_RIMES = ("a", "ai", "an", "ar", "e", "el", "en", "er", "i", "in", "o", "on", "or", "oo", "u", "um",
          "ick", "end", "old", "ust", "y")  # fmt: skip
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_VERBS = ("carry", "follow", "watch", "mend", "gather", "guard", "lift", "trace", "paint", "count",
          "sort", "feed", "clear", "raise", "lower", "open", "fold", "shake", "visit", "mark",
          "water", "load", "warm", "cool", "hide", "test")  # fmt: skip
_NOUNS = ("stone", "river", "bridge", "lamp", "basket", "meadow", "gate", "tower", "rope", "sail",
          "well", "seed", "drum", "bell", "cart", "hill", "road", "tree", "cloud", "boat", "glass",
          "wheel", "salt", "ladder", "mirror", "kettle", "garden", "signal", "pattern", "ring",
          "line", "pool", "sound", "shade", "token", "crate", "trail", "post")  # fmt: skip
_ADJECTIVES = ("red", "old", "quiet", "near", "heavy", "thin", "bright", "long", "wet", "round",
               "cold", "small", "broad", "loose", "green", "hollow", "blue", "steep")  # fmt: skip
_PLACES = ("to the {n}", "past the {n}", "under the {a} {n}", "over the {n}", "beside the {n}",
           "from the {a} {n} to the {n}", "around the {n}", "inside the {n}", "")  # fmt: skip
_TIMES = ("", "", "", "again", "soon", "at dusk", "slowly", "before the {n} is {a}",
          "while the {n} is {a}", "until the {n} is {a}", "once it is {a}", "twice")  # fmt: skip

_CASES: tuple[Callable[[str], str], ...] = (
    str.upper, str.upper, str.upper, str.lower, str.lower, str.capitalize, str.swapcase,
)  # fmt: skip


def stem(draw: Draw) -> str:
    """Make up a lower-case stem: syllables, any letters, a common word, or letters with digits."""
    kind = draw.below(20)
    if kind < 8:
        return "".join(
            draw.choice(_ONSETS) + draw.choice(_RIMES) for _ in range(draw.between(1, 3))
        )
    if kind < 14:
        return "".join(draw.choice(_LETTERS) for _ in range(draw.between(1, 8)))
    if kind < 18:
        return word(draw)
    return draw.choice(_LETTERS) + str(draw.below(1000))


def case(draw: Draw) -> Callable[[str], str]:
    """Choose how words are cased, for one list of them."""
    return draw.choice(_CASES)


def name(draw: Draw, style: Callable[[str], str] = str.lower) -> str:
    """Make up a name of one stem, or of two with a hyphen, an underscore or a space."""
    if draw.chance(80):
        return style(stem(draw))
    return style(stem(draw) + draw.choice("-_ ") + stem(draw))


def word(draw: Draw) -> str:
    """Choose a common word."""
    return draw.choice(draw.choice((_VERBS, _NOUNS, _ADJECTIVES)))


def key(draw: Draw, *, common: bool = False) -> str:
    """Make up a key that a view may have, or choose a common word for one."""
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
    """Make up so many different actions: words of one case, or a numbered row of one word."""
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
    text = f"{draw.choice(_VERBS)} the {_noun(draw)} {draw.choice(_PLACES)} {draw.choice(_TIMES)}"
    while "{" in text:
        text = text.replace("{n}", _noun(draw), 1).replace("{a}", draw.choice(_ADJECTIVES), 1)
    return " ".join(text.split()).capitalize() + "."


def goal(draw: Draw) -> str:
    """Make up a goal of one to six sentences."""
    return " ".join(sentence(draw) for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 6))))


def task(draw: Draw) -> str:
    """Make up the name of a task and its substrate."""
    return f"{stem(draw)}/{name(draw)}"[:MAX_FACT]


def _noun(draw: Draw) -> str:
    plain = draw.choice(_NOUNS) if draw.chance(70) else stem(draw)
    return f"{plain} {draw.choice(_LETTERS).upper()}" if draw.chance(10) else plain
