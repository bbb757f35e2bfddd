"""Goals in common English for made-up tasks on graphs: all alike, and what is nearly said like it.

Whether all should answer alike can be read from the goal alone (`waggle.laws.stances`), so a law
has to tell such goals from near misses that use the same words: neighbours that must not have the
same, one that stands out of all, one of two at every edge. Each comes in many phrasings.

What was in sight: the phrasings were written by someone who knew the contracts of the transfer
tasks, among which are these four kinds of goal, and the kinds are here because of them. Their
sentences are not: no four words in a row of such a contract are in a goal made here (a test
compares them), nor the words they call their roles by. Ordinary words ("same", "all", "answer") are
in both. Invariant: `alike` goals ask for agreement as the teacher reads them, the others never do.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.corpus import vocabulary
from waggle.corpus.draw import Draw

_THINGS = ("answer", "choice", "word", "mark", "sign", "pick", "number", "call", "option", "side",
           "name", "letter", "symbol", "colour", "stand", "tone", "flag", "vote")  # fmt: skip
_VERBS = ("take", "pick", "name", "state", "say", "show", "hold", "report", "declare", "play",
          "select", "settle on", "end with", "stand for", "go for", "keep")  # fmt: skip
_ALL = ("everyone", "everybody", "all nodes", "all of you", "every node", "the whole swarm",
        "each of you", "all members", "every one of the nodes", "the entire net", "all the others",
        "all the rest", "everyone around", "every other node", "all", "each node",
        "all that take part", "the whole crowd", "each and every one")  # fmt: skip
_NEAR = ("neighbour", "node beside you", "one next to you", "node you hear", "node at your side",
         "contact of yours")  # fmt: skip
_MANY = ("neighbours", "nodes beside you", "those next to you", "nodes you hear",
         "nodes at your side", "contacts of yours")  # fmt: skip

_ALIKE = (
    "{v} the same {t} as {all}.",
    "{v} the same {t} as {all}.",
    "{v} what {all} will {v} as well, the same {t}.",
    "you should {v} the same {t} as {all} in the end.",
    "{all} should end up with the same {t}.",
    "in the end {all} must {v} one and the same {t}.",
    "it is done when the {t} of {all} is identical.",
    "{all} must agree on one {t}.",
    "agree with {all} on a common {t}.",
    "let {all} come to the same {t}.",
    "what matters is that {all} {v} the same {t} at last.",
    "make your {t} equal to that of {all}.",
    "the {t} of {all} has to be alike.",
    "reach a {t} that is the same for {all}.",
    "it is solved once all have the same {t}, whichever it is.",
    "all of the {t} shown must match in the end.",
    "bring {all} to agreement on a single {t}.",
    "you win together if the {t} of {all} is the same.",
    "whichever {t} it is, {all} should share it.",
    "be of the same mind as {all}, whatever the {t}.",
    "one {t} for all of you, the same everywhere.",
    "every {t} should equal every other {t}.",
    "your {t} has to coincide with that of {all}.",
    "success means that {all} picked the identical {t}.",
    "{v} a {t}, the same for {all}.",
    "the aim is a unanimous {t} of {all}.",
    "with {all} {v} a shared {t}.",
    "{all} and you need the same {t}.",
    "see to it that {all} in the end {v} the same {t} as you.",
    "the same {t} is asked of {all}.",
)  # fmt: skip
_APART = (
    "no two {many} may {v} the same {t}.",
    "{v} a {t} that differs from those of all {many}.",
    "never {v} the same {t} as a {near}.",
    "all {many} must differ from you in their {t}.",
    "do not share a {t} with any {near}.",
    "nobody around you should have the same {t} as you.",
    "every {near} should have another {t} than you, never the same.",
    "avoid the {t} of every {near}.",
    "the same {t} must not stand on both sides of an edge.",
    "keep your {t} distinct from that of each {near}.",
    "everyone may {v} any {t}, but not the same as a {near}.",
    "all may {v} what they like, only never the same {t} side by side.",
    "it is wrong to {v} the same {t} as a {near}.",
    "{many} need different {t}s, all of them.",
    "where a {near} has the same {t} as you, one of both must change.",
    "a {t} that every {near} leaves free is yours.",
)  # fmt: skip
_ONE = (
    "only one of all may {v} {a}, everyone besides should {v} {b}.",
    "exactly one node of the whole net takes {a}, all the rest take {b}.",
    "{a} is for one alone; all the rest {v} {b}.",
    "there must be one {a} and never more, however many {b}.",
    "all but one take the same {t}, {b}; that one takes {a}.",
    "never may two nodes {v} {a}; all but one of them {v} {b}.",
    "a single node of all should end with {a}, each other one with {b}.",
    "let one stand out with {a}; the same {b} for all the rest, but not for that one.",
    "not everyone may have the same {t}: one has {a}.",
    "find the one that goes first; it takes {a} and everyone behind it {b}.",
    "one {a} in the whole swarm, no second one, and {b} for all besides.",
    "everybody says {b} except for one that says {a}.",
)  # fmt: skip
_EDGES = (
    "on every edge at least one side should {v} {a}, and no {a} may be spared.",
    "of two {many} at least one takes {a}; take {b} where all around you have {a}.",
    "not all may take {a}: whoever has only {a} beside it takes {b}.",
    "every pair of {many} must hold an {a}, with as few as will do.",
    "two {many} must never both {v} {b}, and not everyone should {v} the same {t}.",
    "{b} next to {b} is wrong, and so is {a} where all {many} have the same {a}.",
    "each edge wants {a} at a side of it; drop {a} where it is of no use.",
    "{v} {b} only if every {near} has {a}.",
    "all {b} stand apart from each other, and every {a} has a {b} beside it.",
    "no {b} beside another {b}, never the same {a} all around an {a}.",
)  # fmt: skip
_BESIDES = (
    "what you do last is what counts.",
    "you may change your {t} until the end.",
    "your own claim carries your {t} to those who hear it.",
    "pass on what you were told, or tell of yourself.",
    "each turn you {v} a {t}; earlier ones are forgotten.",
    "claims have an order that may help.",
    "whoever goes before others in the order may decide.",
    "you see what those around you told of themselves.",
    "nobody sees more than what is told.",
    "a word of another claim is passed on as it came.",
    "there are a few turns.",
)  # fmt: skip


def alike(draw: Draw) -> str:
    """Make up a goal that asks all for the same answer."""
    return _told(draw, _ALIKE, ())


def apart(draw: Draw) -> str:
    """Make up a goal that asks for another answer than the neighbours'."""
    return _told(draw, _APART, ())


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
    if len(actions) > 2:
        return apart(draw)
    return single(draw, actions) if told else edges(draw, actions)


def _told(draw: Draw, phrasings: Sequence[str], actions: Sequence[str]) -> str:
    """Say it in one sentence, with up to five others before and behind it."""
    behind = draw.choice((0, 0, 1, 2, 3, 3, 4))
    before = draw.choice((0, 0, 0, 0, 1))
    said = [_besides(draw) for _ in range(before)]
    said.append(_filled(draw, draw.choice(phrasings), actions))
    return " ".join([*said, *(_besides(draw) for _ in range(behind))])


def _besides(draw: Draw) -> str:
    """Say something that leaves the goal as it is."""
    return (
        _filled(draw, draw.choice(_BESIDES), ()) if draw.chance(75) else vocabulary.sentence(draw)
    )


def _filled(draw: Draw, text: str, actions: Sequence[str]) -> str:
    """Fill a phrasing in; actions come last, since their words are anything."""
    slots = (
        ("{t}", _THINGS),
        ("{v}", _VERBS),
        ("{all}", _ALL),
        ("{near}", _NEAR),
        ("{many}", _MANY),
    )
    for slot, words in slots:
        text = text.replace(slot, draw.choice(words))
    start = next((place for place, letter in enumerate(text) if letter.isalpha()), 0)
    if not text.startswith("{"):
        text = text[:start] + text[start].upper() + text[start + 1 :]
    for slot, action in zip(("{a}", "{b}"), actions, strict=False):
        text = text.replace(slot, action)
    return text
