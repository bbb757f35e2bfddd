"""Goals in common English for made-up tasks on graphs: all alike, and what is nearly said like it.

Whether all should answer alike can be read from the goal alone (`waggle.laws.expert.stances`), so a
law has to tell such goals from near misses that use the same words: neighbours that must not have
the same, one that stands out of all, one of two at every edge. Each comes in many phrasings, behind
the same openings, with the same things said besides (`waggle.corpus.views.besides`); agreement is
asked of neighbours, edges and pairs too. Some near misses ask for nothing in words. So only words
for sameness, for all and for exceptions, in one clause, tell which it is (a test measures others).

What was in sight: the phrasings were written by someone who knew the contracts of the transfer
tasks, among which are these four kinds of goal, and the kinds are here because of them; so are the
semicolons and contacts that are said besides. Their sentences are not: no four words in a row of
such a contract are in a goal made here (a test compares them), nor the words they call their roles
by. Ordinary words ("same", "all", "answer") are in both. Invariant: `alike` goals ask for agreement
as the teacher reads them, the others never do.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.corpus.views import besides
from waggle.corpus.views.rng import Draw

_BARE = ("", "", "", "", "in the end ", "at last ", "together ", "whatever comes: ")
_OPENINGS = ("", "", "", "", "in the end ", "at last ", "it is done when ", "it is solved once ",
             "what matters is that ", "see to it that ", "you win together if ",
             "success means that ", "the aim is that ", "what is asked is that ",
             "let it come to this: ", "only this counts; ", "it is wanted that ")  # fmt: skip
"""What may stand before a clause that commands, and before one that says how it should be."""
_UNSAID = 12
"""Percent of other goals that ask for nothing in words: what is said besides is all there is."""

_ALIKE = (
    (
        "{v} the same {t} as {all}",
        "{v} the same {t} as {all}",
        "{v} the same {t} as {all}",
        "{v} what {all} will {v} as well, the same {t}",
        "agree with {all} on a common {t}",
        "make your {t} equal to that of {all}",
        "reach a {t} that is the same for {all}",
        "bring {all} to agreement on a single {t}",
        "be of the same mind as {all}, whatever the {t}",
        "{v} a {t}, the same for {all}",
        "with {all} {v} a shared {t}",
        "{v} the same {t} as every {near}",
        "{v} a {t} that is shared by all {many}",
        "share your {t} with each {near}",
        "keep your {t} equal to that of each {near}",
        "{v} the same {t} as all {many}, whoever goes first",
    ),
    (
        "{all} should end up with the same {t}",
        "{all} must {v} one and the same {t}",
        "the {t} of {all} is identical",
        "{all} must agree on one {t}",
        "{all} will {v} the same {t}",
        "the {t} of {all} has to be alike",
        "all have the same {t}, whichever it is",
        "all of the {t}s shown must match",
        "whichever {t} it is, {all} should share it",
        "one {t} is there for all of you, the same everywhere",
        "every {t} should equal every other {t}",
        "your {t} has to coincide with that of {all}",
        "{all} picked the identical {t}",
        "there is a unanimous {t} of {all}",
        "{all} and you have the same {t}",
        "the same {t} is asked of {all}",
        "the same {t} must stand on both sides of each edge",
        "every pair of {many} must hold the same {t}, with one {t} in use at last",
        "two {many} at any edge {v} the same {t}, and so do all",
        "all {many} must have the same {t} as you, and so must all beside them",
        "all may {v} what they like, as long as it is the same {t} side by side",
        "{all} takes the same {t} as the one that goes first",
        "the one that goes first and everyone behind it should {v} the same {t}",
        "where a {near} has a {t}, it is the same as that of all around it",
        "on every edge both sides should {v} the same {t}",
        "of two {many} each takes the same {t}",
        "however many there are, {all} will have the same {t}",
    ),
)  # fmt: skip
_APART = (
    (
        "never {v} the same {t} as a {near}",
        "never {v} the same {t} as any {near}",
        "{v} a {t} that differs from those of all {many}",
        "do not share a {t} with any {near}",
        "avoid the {t} of every {near}",
        "keep your {t} distinct from that of each {near}",
        "make your {t} differ from that of every {near}",
        "reach a {t} that is never the same as that of a {near}",
        "bring no {near} to agreement on your {t}",
        "never be of the same mind as a {near}, whatever the {t}",
        "{v} another {t} than all {many}, whichever it is",
    ),
    (
        "no two {many} {v} the same {t}",
        "all {many} must differ from you in their {t}",
        "nobody around you should have the same {t} as you",
        "every {near} should have another {t} than you, never the same",
        "the same {t} must not stand on both sides of an edge",
        "everyone may {v} any {t}, but not the same as a {near}",
        "all may {v} what they like, only never the same {t} side by side",
        "it is wrong to {v} the same {t} as a {near}",
        "{many} have different {t}s, all of them",
        "where a {near} has the same {t} as you, one of both must change",
        "a {t} that every {near} leaves free is yours",
        "your {t} must never coincide with that of a {near}",
        "no pair of {many} picked the identical {t}",
        "there is no {t} that all {many} share",
    ),
)  # fmt: skip
_ONE = (
    (
        "find the one that goes first, it takes {a} and everyone behind it {b}",
        "let one stand out with {a}; {v} the same {b} with all the rest, but not with that one",
        "{v} {b} with all the others unless you alone {v} {a}",
        "{v} {a} only if you are the one that goes first, whatever all the rest {v}",
    ),
    (
        "only one of all may {v} {a}, everyone besides should {v} {b}",
        "exactly one node of the whole net takes {a}, all the rest take {b}",
        "{a} is for one alone; all the rest {v} {b}",
        "there must be one {a} and never more, however many {b}",
        "all but one take the same {t}, {b}: that one takes {a}",
        "never two nodes {v} {a}, and all but one of them {v} {b}",
        "a single node of all should end with {a}, each other one with {b}",
        "not everyone may have the same {t}: one has {a}",
        "one {a} is in the whole swarm, no second one, and {b} for all besides",
        "everybody says {b} except for one that says {a}",
    ),
)  # fmt: skip
_EDGES = (
    (
        "take {b} where all around you have {a}, and {a} where a {near} has {b}",
        "{v} {b} only if every {near} has {a}",
        "drop {a} where it is of no use; on each edge have it at a side",
        "never {v} {b} beside a {near} with the same {t}, {b}",
    ),
    (
        "on every edge at least one side should {v} {a}, and no {a} may be spared",
        "of two {many} at least one takes {a}; whoever has only {a} beside it takes {b}",
        "not all may take {a}: whoever has only {a} beside it takes {b}",
        "every pair of {many} must hold an {a}, with as few as will do",
        "two {many} must never both {v} {b}, and not everyone should {v} the same {t}",
        "{b} next to {b} is wrong, and so is {a} where all {many} have the same {a}",
        "each edge has {a} at a side of it",
        "all {b} stand apart from each other, and every {a} has a {b} beside it",
        "no {b} is beside another {b}, never the same {a} all around an {a}",
    ),
)  # fmt: skip
"""Clauses of each kind: those that command, and those that say how it should be."""


def alike(draw: Draw, actions: Sequence[str]) -> str:
    """Make up a goal that asks all for the same answer."""
    return _told(draw, _ALIKE, actions)


def apart(draw: Draw, actions: Sequence[str]) -> str:
    """Make up a goal that asks for another answer than the neighbours'."""
    return _told(draw, _APART, actions)


def single(draw: Draw, actions: Sequence[str]) -> str:
    """Make up a goal that asks one of all nodes for the first of two actions."""
    return _told(draw, _ONE, actions)


def edges(draw: Draw, actions: Sequence[str]) -> str:
    """Make up a goal that asks for the first of two actions at a side of every edge."""
    return _told(draw, _EDGES, actions)


def other(draw: Draw, actions: Sequence[str], told: bool) -> str:
    """Make up a goal for the way a task without agreement is answered.

    Args:
        draw: names every choice.
        actions: what nodes may answer, in the contract's order.
        told: whether claims carry stances.
    """
    if draw.chance(_UNSAID):
        return besides.told(draw, "", actions)
    if len(actions) > 2:
        return apart(draw, actions)
    return single(draw, actions) if told else edges(draw, actions)


def _told(draw: Draw, clauses: Sequence[Sequence[str]], actions: Sequence[str]) -> str:
    """Say it in one clause, which commands or says how it should be, beside others."""
    commands = draw.chance(40)
    start = draw.choice(_BARE if commands else _OPENINGS)
    clause = start + draw.choice(clauses[0 if commands else 1])
    return besides.told(draw, besides.filled(draw, clause, actions), actions)
