"""What is said beside the goal of a made-up task on a graph, and the words that fill goals in.

A law takes any sign that stands on one side only for the goal itself. One had learned that a
semicolon, or the word contact, means a near miss of agreement: clauses that decide had them there,
and hardly anything else did. So goals of every kind are told by one function with one pool of
clauses, and what stands in clauses that decide stands in the pool too: neighbours, actions,
numbers, semicolons, words for sameness, for all and for exceptions. Invariant: no clause of the
pool asks for agreement as the teacher reads it (`waggle.laws.expert.stances`), so what is said
besides changes no answer. For what was in sight see `waggle.corpus.views.goals`.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.corpus.views import words as vocabulary
from waggle.corpus.views.rng import Draw

_THINGS = ("answer", "choice", "word", "mark", "sign", "pick", "number", "call", "option", "side",
           "name", "letter", "symbol", "colour", "stand", "tone", "flag", "vote")  # fmt: skip
_VERBS = ("take", "pick", "name", "state", "say", "show", "hold", "report", "declare", "play",
          "select", "settle on", "end with", "stand for", "go for", "keep")  # fmt: skip
_ALL = ("everyone", "everybody", "all nodes", "all of you", "every node", "the whole swarm",
        "each of you", "all members", "every one of the nodes", "the entire net", "all the others",
        "all the rest", "everyone around", "every other node", "all", "each node",
        "all that take part", "the whole crowd", "each and every one")  # fmt: skip
_NEAR = ("neighbour", "node beside you", "one next to you", "node you hear", "node at your side",
         "contact of yours", "contact", "direct contact")  # fmt: skip
_MANY = ("neighbours", "nodes beside you", "those next to you", "nodes you hear",
         "nodes at your side", "contacts of yours", "contacts", "direct contacts")  # fmt: skip
_SLOTS = (("{t}", _THINGS), ("{v}", _VERBS), ("{all}", _ALL), ("{near}", _NEAR), ("{many}", _MANY))
_BESIDES = (
    "what you do last is what counts",
    "you may change your {t} until the end",
    "your own claim carries your {t} to those who hear it",
    "pass on what you were told, or tell of yourself",
    "each turn you {v} a {t}; earlier ones are forgotten",
    "claims have an order that may help",
    "whoever goes before others in the order may decide",
    "you see what {many} told of themselves",
    "nobody sees more than what is told",
    "a word of another claim is passed on as it came",
    "there are a few turns, {n} at least",
    "a {near} hears what you tell",
    "{many} hear it at the next turn",
    "each {near} hears only you; it hears all at once",
    "a deposit reaches one {near} or all {many}",
    "a deposit shows a {near} where you stand",
    "a {near} takes what it hears for true",
    "what a {near} tells is at least one turn old",
    "{many} may tell you of those behind them",
    "the {many} that you have stay where they are",
    "where you stand, and beside whom, was drawn at random",
    "an edge has two sides, and both may speak",
    "each edge wants to be used; any side of it will do",
    "of two words that come at once both are heard",
    "however many {many} there are, they are asked in order",
    "find out who goes first; it takes a turn or two",
    "drop what is old, use what is new",
    "no turn is spared, and no {near} goes unheard",
    "only one pair of {many} may speak at a time",
    "never mind what was said before",
    "not all words come through",
    "all but the last turn are for finding out",
    "a single {near} may know more than you",
    "two words of the same claim may come by two ways",
    "the same {near} may tell you the same thing again",
    "a different {near} may tell you a different {t}",
    "what is wrong now may be right at the next turn",
    "the smaller number goes first, and a tie is of no use",
    "each other {near} has a turn of its own",
    "everyone besides you has {many} as well",
    "everybody stands beside somebody",
    "the whole net hangs together: from side to side it takes {n} turns",
    "every node of the net takes part; it has a place in the order",
    "all members of the crowd are asked {n} times",
    "what matters is shown to you in time",
    "when it is done, you are told so: it is done after {n} turns",
    "success is counted once, by the last {t} that is shown",
    "the aim stays as it is; whatever a {near} says",
    "together with {many} you have {n} turns",
    "whichever way a word comes, it counts once",
    "make up your mind in time, with what you picked before in sight",
    "bring word of what you heard, as long as you have it",
    "a word may reach you late; let it come",
    "it is solved or it is not, and nobody can win alone",
    "it will be seen in the end whether you win or not",
    "see whom the word came from",
    "you should have {n} words at most",
    "it always goes on like this, the rest is up to you",
    "which of them tells its {t} first is up to the rest of the net",
    "what {many} leave unsaid is free for a second turn",
    "{many} keep their {t} if they like",
    "a {near} leaves its {t} in sight",
    "any {t} will do for a start",
    "an old {t} counts as much as a new {t}",
    "a {t} that was shown is wanted by {many}, their {many} besides",
    "if a {t} is wanted, it is asked for",
    "the {t} of a {near} is what it told you last",
    "a {t} is drawn for you at the start, as for a {near}",
)  # fmt: skip
"""Some have words for sameness, for all, or such as take these back; none asks all for the same."""
_ACTIONS = (
    "{a} stands before {b} in the list",
    "you may say {a}, {b} or nothing",
    "{a} and {b} are words like any other",
    "whoever takes {a} may take {b} at the next turn",
    "some {v} {a}; some {v} {b}",
    "a {near} that has {a} may tell you so",
    "{b} takes as long as {a}: one turn",
    "{a} is a {t}, and so is {b}",
    "a {t} such as {b} may be dropped, and {a} found",
    "where a {near} has {b}, it says {b}",
    "only {a} and {b} are left",
    "everyone can {v} {a}, and everyone can {v} {b}",
)  # fmt: skip
"""The same, with actions: a word of theirs may be anything, so each is a clause by itself."""
_NAMED = 27
"""Percent of clauses of the pool that name actions."""
_ENDS = (".", ".", ".", ".", ".", ".", ";", ";", ":", "!")
"""What stands between two clauses: a teacher reads each by itself."""


def told(draw: Draw, goal: str, actions: Sequence[str]) -> str:
    """Say a goal, with up to seven clauses before and behind it.

    Args:
        draw: names every choice.
        goal: the clause that decides, filled in; empty where nothing is asked in words.
        actions: what nodes may answer, in the contract's order.
    """
    before = draw.choice((0, 0, 0, 0, 1, 2))
    behind = draw.choice((0, 1, 1, 2, 3, 4, 5))
    said = [_clause(draw, actions) for _ in range(before)]
    said += [goal] if goal else [_clause(draw, actions)]
    said += [_clause(draw, actions) for _ in range(behind)]
    text, end = "", "."
    for clause in said:
        # An action keeps its spelling wherever it stands.
        plain = clause.startswith(tuple(f"{word} " for word in actions)) or end in ";:"
        text += clause if plain else clause[:1].upper() + clause[1:]
        end = draw.choice(_ENDS)
        text += f"{end} "
    return text[:-2] + ("." if end in ";:" else end)


def _clause(draw: Draw, actions: Sequence[str]) -> str:
    """Say something that leaves the goal as it is."""
    if draw.chance(20):
        plain = vocabulary.sentence(draw)[:-1]
        return plain[:1].lower() + plain[1:]
    pool = _ACTIONS if draw.chance(_NAMED) else _BESIDES
    return filled(draw, draw.choice(pool), actions)


def filled(draw: Draw, text: str, actions: Sequence[str]) -> str:
    """Fill a phrasing in; actions come last, since their words are anything."""
    for slot, words in _SLOTS:
        text = text.replace(slot, draw.choice(words))
    text = text.replace("{n}", str(draw.between(2, 30)))
    for slot, action in zip(("{a}", "{b}"), actions, strict=False):
        text = text.replace(slot, action)
    return text
