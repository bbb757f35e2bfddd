"""Linked views: made-up tasks on a graph in which contacts state the action they stand for.

A node has an own claim with a place in an order, knows what contacts have told it of theirs, and
answers by the stances it sees (`waggle.laws.stances`). Words, keys, the number of contacts and
actions, further facts and traces are drawn; no world is played and no transfer task is read. Half
of the tasks are plain (common words, few contacts, hardly a further fact), so that the comparison
is learned there first. In some tasks the answer names a contact; their label is the proposal.
Crowded views hold many traces of the same few claims by several contacts and of every age, as they
pile up where all tell all: to pass one on, a law has to keep to the row it chose. Poised views are
crowded ones with more facts on every row, in which the answer hangs on one contact: stances drawn
at random nearly always give it away by the place in the order alone, and then nothing is compared.
Invariant: every view is bounded, and the teacher's record follows from the view alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

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
from waggle.corpus import vocabulary
from waggle.corpus.draw import Draw

_CROWDS = (4, 6, 8)
_FEW = (2, 3, 5)
"""Contacts at most, in one view; of a plain task they are few."""
_AGES = (0, 0, 0, 1, 2, 3, 5)
_ALL_AGES = range(MAX_TTL - 1)
"""Rounds that word has been under way; in a crowded view as often long as short."""
_TOLD = {"plain": 30, "poised": 45, "crowded": 60}
"""Percent of tasks in which claims carry stances."""
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
    poised: bool = False
    """Whether, in its views, the answer hangs on one contact."""


def make(draw: Draw, words: Words) -> View:
    """Make up one view of a task."""
    if words.crowded:
        contacts = draw.between(2, draw.choice(_CROWDS))
    else:
        contacts = draw.between(
            0 if draw.chance(5) else 1, draw.choice(_FEW if words.common else _CROWDS)
        )
    silent = draw.choice((0, 0, 0, 10, 30, 30 if words.crowded else 100))
    heard = [not draw.chance(silent) for _ in range(contacts)]
    count = 1 + sum(heard) + (draw.between(0, 6) if words.told else 0)
    own, *places = draw.some(range(count), count)
    if words.poised and words.told and own and draw.chance(50):
        places[places.index(0)], own = own, 0
    standing = draw.choice(words.spoken) if draw.chance(85) else words.unsaid
    ports = _ports(draw, words, heard, places, standing)
    if words.poised and not words.told:
        ports = _poised(draw, words, ports, own, standing)
    tellers = [number for number, spoke in enumerate(heard) if spoke]
    tellers += [-1] * (len(places) - len(tellers))
    rows, traces = _claims(draw, words, own, list(zip(tellers, places, strict=True)), contacts)
    observation: dict[str, Json] = {words.stance: standing, words.order: own}
    if draw.chance(60):
        observation[vocabulary.key(draw)] = str(draw.bits() >> draw.below(60))
    ready = _ready(draw, words, len(rows))
    private = Private(observation, (_own(draw),), ready, None, ports, rows)
    proposal = Proposal(_proposed(draw, words, standing, contacts), None, "z0")
    plain = View(words.contract, private, proposal, traces, None, draw.between(0, MAX_BIN))
    return orbit.sample(plain, draw.bits()).view(plain)


def _proposed(draw: Draw, words: Words, standing: str, contacts: int) -> str:
    """Propose an action, often the one the node stands for."""
    if draw.chance(4):
        return WAIT
    if words.points and contacts and draw.chance(85):
        return f"{words.points}:h{draw.below(contacts)}"
    plain = [a for a in words.contract.actions if a != WAIT and not a.endswith(CHANNEL_ARGUMENT)]
    return standing if standing in plain and draw.chance(50) else draw.choice(plain)


def _ready(draw: Draw, words: Words, claims: int) -> tuple[str, ...]:
    """Call the own claim ready now and then, in poised views any few claims."""
    if words.poised:
        return tuple(f"z{number}" for number in range(claims) if draw.chance(12))
    return ("z0",) if draw.chance(12) else ()


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


def _poised(
    draw: Draw, words: Words, ports: Sequence[Port], own: int, standing: str
) -> tuple[Port, ...]:
    """State the answers of contacts anew: of those that go first one tips the scales, or none does.

    What tips them is the own answer among many, and among two the second.
    """
    tip = standing if len(words.spoken) > 2 else words.spoken[-1]
    others = [word for word in words.spoken if word != tip]
    before = [n for n, port in enumerate(ports) if _place(port, words, own) < own]
    tips = {draw.choice(before)} if before and draw.chance(50) else set()
    stated: list[Port] = []
    for number, port in enumerate(ports):
        if words.stance in port.facts:
            after = number not in before and draw.chance(50)
            said = tip if number in tips or after else draw.choice(others)
            facts: dict[str, Fact] = {**port.facts, words.stance: said}
            port = msgspec.structs.replace(port, facts=facts)
        stated.append(port)
    return tuple(stated)


def _place(port: Port, words: Words, unknown: int) -> int:
    place = port.facts.get(words.order, unknown)
    return place if isinstance(place, int) else unknown


def task(draw: Draw, *, crowded: bool = False, poised: bool = False) -> Words:
    """Make up a task: its contract, and keys that are all different. What is poised is crowded."""
    crowded = crowded or poised
    common = draw.chance(50)
    drawn: dict[str, None] = {}
    while len(drawn) < 10:
        drawn[vocabulary.key(draw, common=common)] = None
    names = [draw.choice(_BORROWED) if draw.chance(12) else name for name in drawn]
    if len(set(names)) < len(names):
        names = list(drawn)
    unsaid = draw.choice(_SILENT) if draw.chance(60) else vocabulary.name(draw)
    kind = "poised" if poised else "crowded" if crowded else "plain"
    points, told = draw.chance(12), draw.chance(_TOLD[kind])
    few = told or points or draw.chance(45)
    actions = _actions(draw, 2 if few else draw.between(3, 9), unsaid, common)
    spoken = list(actions)
    if points:
        spoken = [actions[1], vocabulary.name(draw), vocabulary.name(draw)]
        actions = [f"{actions[0][:30]}:{CHANNEL_ARGUMENT}", actions[1]]
    more = draw.between(0, 4) if not common else draw.below(2)
    ports, claims = names[2 : 2 + more], names[7 : 7 + draw.between(0, 2) // (1 + common)]
    if poised:
        ports, claims = names[2 : 4 + draw.below(4)], names[7 : 8 + draw.below(3)]
    verb = actions[0].partition(":")[0] if points else ""
    contract = _contract(draw, actions)
    return Words(
        contract, names[0], names[1], ports, claims, unsaid, told, spoken, verb, common, crowded,
        poised,
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
        traces += [_trace(draw, words, f"h{teller}", f"z{number}") for teller in told]
    if contacts and draw.chance(25):
        traces.append(_trace(draw, words, f"h{draw.below(contacts)}", "z0"))
    listed = rows if draw.chance(85) or words.told else []
    return tuple(listed), tuple(draw.some(traces, MAX_TRACES))


def _facts(draw: Draw, words: Words, place: int, said: str | None) -> dict[str, Fact]:
    facts: dict[str, Fact] = {words.order: place}
    facts |= {key: draw.between(0, 5) for key in words.claims}
    if said is not None:
        facts[words.stance] = said
    return dict(sorted(facts.items()))


def _trace(draw: Draw, words: Words, channel: str, claim: str) -> Trace:
    age = draw.choice(_ALL_AGES if words.crowded else _AGES)
    support = draw.choice((1, MAX_BIN, MAX_BIN, draw.between(0, MAX_BIN)))
    return Trace(
        channel, claim, max(0, MAX_BIN - age), max(0, support - age // 2), 0, MAX_TTL - age
    )  # fmt: skip
