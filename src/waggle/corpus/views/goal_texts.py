"""Goals in common English for made-up tasks on graphs: agreement, and near misses of it.

Only the goal says whether all nodes should answer alike (`waggle.laws.expert.stances` reads it), so
a law has to tell such goals from near misses with the same words: neighbours that must differ, one
node that stands out of all, one of two answers at every edge. Some near misses ask for nothing.
Words for sameness, for all and for exceptions, in one clause, decide which goal it is.

A law takes any sign that occurs on one side only for the goal itself: one law had learned that a
semicolon, or the word contact, means a near miss. So goals of every kind have the same openings and
the same asides, which change no answer, and a test measures that no other sign tells them apart.

Provenance: the phrasings (in `texts.toml`) were written by someone who knew the contracts of
the transfer tasks. These four kinds of goal are among those contracts and are here because of them;
so are the semicolons and contacts in asides. Their sentences are not: a test checks that no four
words in a row of such a contract occur in a goal made here. Invariant: `alike` goals ask for
agreement as the teacher reads them, the others never do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from waggle.corpus.views import words
from waggle.corpus.views.rng import Draw

Kind: TypeAlias = Literal["alike", "apart", "single", "edges"]
"""What a goal asks: agreement, or one of its three near misses."""
_TEXTS = words.TEXTS["goals"]
_NOTHING_ASKED = 12
"""Percent of near misses that ask for nothing in words: all clauses are asides."""
_NAMING = 27
"""Percent of asides that name actions."""
_ENDS = (".", ".", ".", ".", ".", ".", ";", ";", ":", "!")
"""What separates two clauses; the teacher reads each clause by itself."""


def near_miss(draw: Draw, actions: Sequence[str], carried: bool) -> str:
    """Make up a goal without agreement that fits how its task is answered.

    Args:
        draw: names every choice.
        actions: what nodes may answer, in the contract's order.
        carried: whether claims carry stances.
    """
    if draw.chance(_NOTHING_ASKED):
        return with_asides(draw, "", actions)
    if len(actions) > 2:
        return goal(draw, "apart", actions)
    return goal(draw, "single" if carried else "edges", actions)


def goal(draw: Draw, kind: Kind, actions: Sequence[str]) -> str:
    """Make up a goal of one kind: a clause that commands or states, among asides."""
    mood = "command" if draw.chance(40) else "statement"
    clause = draw.choice(_TEXTS["openings"][mood]) + draw.choice(_TEXTS[kind][mood])
    return with_asides(draw, _filled(draw, clause, actions), actions)


def with_asides(draw: Draw, clause: str, actions: Sequence[str]) -> str:
    """Return a clause with up to seven asides around it.

    Args:
        draw: names every choice.
        clause: the clause that decides; where it is empty there is one more aside.
        actions: what nodes may answer, in the contract's order.
    """
    before = draw.choice((0, 0, 0, 0, 1, 2))
    after = draw.choice((0, 1, 1, 2, 3, 4, 5))
    clauses = [_aside(draw, actions) for _ in range(before)]
    clauses += [clause] if clause else [_aside(draw, actions)]
    clauses += [_aside(draw, actions) for _ in range(after)]
    text, end = "", "."
    for each in clauses:
        # An action keeps its spelling wherever it occurs.
        plain = each.startswith(tuple(f"{word} " for word in actions)) or end in ";:"
        text += each if plain else each[:1].upper() + each[1:]
        end = draw.choice(_ENDS)
        text += f"{end} "
    return text[:-2] + ("." if end in ";:" else end)


def _aside(draw: Draw, actions: Sequence[str]) -> str:
    """Make up a clause that changes no answer."""
    if draw.chance(20):
        plain = words.sentence(draw)[:-1]
        return plain[:1].lower() + plain[1:]
    pool = _TEXTS["asides"]["actions" if draw.chance(_NAMING) else "plain"]
    return _filled(draw, draw.choice(pool), actions)


def _filled(draw: Draw, text: str, actions: Sequence[str]) -> str:
    """Replace the placeholders of a phrasing, actions last, since they may be any text."""
    for slot, choices in _TEXTS["slots"].items():
        text = text.replace(f"{{{slot}}}", draw.choice(choices))
    text = text.replace("{n}", str(draw.between(2, 30)))
    for slot, action in zip(("{a}", "{b}"), actions, strict=False):
        text = text.replace(slot, action)
    return text
