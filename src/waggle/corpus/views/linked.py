"""Linked views: made-up tasks on a graph in which contacts state the action they stand for.

A node has an own claim with a place in an order, knows what contacts have told it of theirs, and
answers by the stances it sees (`waggle.laws.expert.stances`). Words, keys, the number of contacts
and actions, further facts and traces are drawn; no world is played and no transfer task is read.
Half of the tasks are plain (common words, few contacts, hardly a further fact), so that the
comparison is learned there first. In some tasks the answer names a contact; their label is the
proposal. Crowded views hold many traces of the same few claims by several contacts and of every
age, as they pile up where all tell all: to pass one on, a law has to keep to the row it chose.
Invariant: every view is bounded, and the teacher's record follows from the view alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waggle.core import orbit
from waggle.core.schema import (
    CHANNEL_ARGUMENT,
    MAX_BIN,
    MAX_LOT,
    MAX_TRACES,
    MAX_TTL,
    WAIT,
    ClaimRow,
    Contract,
    Evidence,
    Fact,
    Json,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)
from waggle.corpus.views import words as vocabulary
from waggle.corpus.views.rng import Draw

_CROWDS = (4, 6, 8)
_FEW = (2, 3, 5)
"""Contacts at most, in one view; of a plain task they are few."""
_AGES = (0, 0, 0, 1, 2, 3, 5)
_ALL_AGES = range(MAX_TTL - 1)
"""Rounds that word has been under way; in a crowded view as often long as short."""
_TOLD, _MOSTLY_TOLD = 30, 60
"""Percent of tasks in which claims carry stances; of crowded ones more."""
_BORROWED = (
    "answer", "answered", "gained", "carrying", "missed", "offer", "sent", "heard", "intent",
    "carries", "kind", "source", "way", "age",
)  # fmt: skip
"""Keys of the training tasks. Here they mean something else: a law that takes such a key for the
sign of its task must unlearn that, or it never looks at the rest of a view that uses the word."""
_SILENT = ("none", "no", "nothing so far", "not said", "-", "?", "open", "")


class Words(NamedTuple):
    """The contract, keys and phrases of one made-up task."""

    contract: Contract

    stance: str
    order: str
    ports: Sequence[str]
    """Further facts on ports."""
    claims: Sequence[str]
    """Further facts on claims."""
    unsaid: str
    told: bool
    """Whether claims carry the stances of their holders."""
    spoken: Sequence[str]
    """What contacts say under the key of stances: actions, unless actions name a contact."""
    points: str
    """The action that names a contact, without its argument; empty where there is none."""
    common: bool
    """Whether the task is a plain one."""
    crowded: bool = False
    """Whether its views are crowded."""


def make(draw: Draw, words: Words) -> View:
    """Make up one view of a task."""
    plain = named(draw, words)
    return orbit.sample(plain, draw.bits()).view(plain)


def named(draw: Draw, words: Words, contacts: int = 0) -> View:
    """Make up one view whose names are telling: the own claim is z0, contacts are h0, h1 and on.

    Args:
        draw: names every choice.
        words: the task.
        contacts: how many there are; drawn where it is 0.
    """
    contacts = contacts or _contacts(draw, words)
    silent = draw.choice((0, 0, 0, 10, 30, 30 if words.crowded else 100))
    heard = [not draw.chance(silent) for _ in range(contacts)]
    count = 1 + sum(heard) + (draw.between(0, 6) if words.told else 0)
    own, *places = draw.some(range(count), count)
    standing = draw.choice(words.spoken) if draw.chance(85) else words.unsaid
    ports = _ports(draw, words, heard, places, standing)
    tellers = [number for number, spoke in enumerate(heard) if spoke]
    tellers += [-1] * (len(places) - len(tellers))
    rows, traces = _claims(draw, words, own, list(zip(tellers, places, strict=True)), contacts)
    observation: dict[str, Json] = {words.stance: standing, words.order: own}
    if draw.chance(60):
        observation[vocabulary.key(draw)] = str(draw.bits() >> draw.below(60))
    ready = ("z0",) if draw.chance(12) else ()
    private = Private(observation, (_own(draw),), ready, None, ports, rows)
    proposal = Proposal(_proposed(draw, words, standing, contacts), None, "z0")
    return View(words.contract, private, proposal, traces, None, draw.between(0, MAX_BIN))


def _contacts(draw: Draw, words: Words) -> int:
    if words.crowded:
        return draw.between(2, draw.choice(_CROWDS))
    fewest = 0 if draw.chance(5) else 1
    return draw.between(fewest, draw.choice(_FEW if words.common else _CROWDS))


def _proposed(draw: Draw, words: Words, standing: str, contacts: int) -> str:
    """Propose an action, often the one the node stands for."""
    if draw.chance(4):
        return WAIT
    if words.points and contacts and draw.chance(85):
        return f"{words.points}:h{draw.below(contacts)}"
    plain = [a for a in words.contract.actions if a != WAIT and not a.endswith(CHANNEL_ARGUMENT)]
    return standing if standing in plain and draw.chance(50) else draw.choice(plain)


def _own(draw: Draw) -> Evidence:
    novelty = MAX_BIN if draw.chance(80) else draw.between(0, MAX_BIN)
    support = MAX_BIN if draw.chance(80) else draw.between(1, MAX_BIN)
    return Evidence("z0", novelty, support, 0)


def _ports(
    draw: Draw, words: Words, heard: Sequence[bool], places: Sequence[int], standing: str
) -> tuple[Port, ...]:
    """Make the contacts; one in four that spoke stands where the node itself stands."""
    ports: list[Port] = []
    left = iter(places)
    for number, spoke in enumerate(heard):
        facts: dict[str, Fact] = {}
        if spoke:
            alike = standing in words.spoken and draw.chance(25)
            said = standing if alike else draw.choice(words.spoken)
            facts = {words.stance: said, words.order: next(left)}
        facts |= {key: draw.between(0, MAX_BIN) for key in words.ports if spoke or draw.chance(40)}
        ports.append(Port(f"h{number}", draw.between(0, MAX_LOT), dict(sorted(facts.items()))))
    return tuple(ports)


def task(draw: Draw, *, crowded: bool = False) -> Words:
    """Make up a task: its contract, and keys that are all different."""
    common = draw.chance(50)
    drawn: dict[str, None] = {}
    while len(drawn) < 10:
        drawn[vocabulary.key(draw, common=common)] = None
    names = [draw.choice(_BORROWED) if draw.chance(12) else name for name in drawn]
    if len(set(names)) < len(names):
        names = list(drawn)
    unsaid = draw.choice(_SILENT) if draw.chance(60) else vocabulary.name(draw)
    points, told = draw.chance(12), draw.chance(_MOSTLY_TOLD if crowded else _TOLD)
    few = told or points or draw.chance(45)
    actions = _actions(draw, 2 if few else draw.between(3, 9), unsaid, common)
    spoken = list(actions)
    if points:
        spoken = [actions[1], vocabulary.name(draw), vocabulary.name(draw)]
        actions = [f"{actions[0][:30]}:{CHANNEL_ARGUMENT}", actions[1]]
    more = draw.between(0, 4) if not common else draw.below(2)
    ports, claims = names[2 : 2 + more], names[7 : 7 + draw.between(0, 2) // (1 + common)]
    verb = actions[0].partition(":")[0] if points else ""
    contract = _contract(draw, actions)
    return Words(
        contract, names[0], names[1], ports, claims, unsaid, told, spoken, verb, common, crowded
    )  # fmt: skip


def _actions(draw: Draw, count: int, unsaid: str, common: bool) -> list[str]:
    """Make up so many actions, none of which says that nothing was said."""
    actions: list[str] = []
    while len(actions) < count:
        found = vocabulary.actions(draw, count, common=common)
        actions = [a for a in found if a != unsaid]
    return actions


def _contract(draw: Draw, actions: Sequence[str]) -> Contract:
    """Make up a contract of some actions."""
    listed = list(actions)
    listed.insert(len(listed) if draw.chance(60) else draw.below(len(listed) + 1), WAIT)
    goal = vocabulary.goal(draw)
    if draw.chance(40):
        goal = f"{goal} {vocabulary.goal(draw)} {vocabulary.goal(draw)}"
    return Contract(vocabulary.task(draw), goal, tuple(listed), broadcast=True)


def _claims(
    draw: Draw, words: Words, own: int, known: Sequence[tuple[int, int]], contacts: int
) -> tuple[tuple[ClaimRow, ...], tuple[Trace, ...]]:
    """Make the rows of the claims held, and traces of what contacts told of them."""
    rows = [ClaimRow("z0", _facts(draw, words, own, None))]
    traces: list[Trace] = []
    for number, (port, place) in enumerate(known, 1):
        said = draw.choice(words.spoken) if words.told else None
        rows.append(ClaimRow(f"z{number}", _facts(draw, words, place, said)))
        tellers = {port} - {-1}
        if contacts and (words.told or draw.chance(10)):
            tellers |= {draw.below(contacts) for _ in range(draw.between(0, 2 + words.crowded))}
        told = [teller for teller in sorted(tellers) if draw.chance(85)]
        traces += [trace(draw, words, f"h{teller}", f"z{number}") for teller in told]
    if contacts and draw.chance(25):
        traces.append(trace(draw, words, f"h{draw.below(contacts)}", "z0"))
    listed = rows if draw.chance(85) or words.told else []
    return tuple(listed), tuple(draw.some(traces, MAX_TRACES))


def _facts(draw: Draw, words: Words, place: int, said: str | None) -> dict[str, Fact]:
    facts: dict[str, Fact] = {words.order: place}
    facts |= {key: draw.between(0, 5) for key in words.claims}
    if said is not None:
        facts[words.stance] = said
    return dict(sorted(facts.items()))


def trace(draw: Draw, words: Words, channel: str, claim: str) -> Trace:
    """Make up word of a claim that came by a channel."""
    age = draw.choice(_ALL_AGES if words.crowded else _AGES)
    support = draw.choice((1, MAX_BIN, MAX_BIN, draw.between(0, MAX_BIN)))
    return Trace(
        channel, claim, max(0, MAX_BIN - age), max(0, support - age // 2), 0, MAX_TTL - age
    )  # fmt: skip
