"""Made-up tasks on a graph, in which contacts state the action they stand for.

A node has a claim of its own with a rank in an order, sees what contacts stated, and answers by
these stances (`waggle.laws.expert.stances`). Words, keys, the number of contacts and actions,
further facts and traces are drawn; no world is played and no transfer task is read. Half of the
tasks are plain (common words, few contacts, hardly a further fact), so that a law learns to compare
there first. In some tasks the answer names a contact; their label is the proposal. Crowded tasks
have many traces of the same few claims, from several contacts and of every age: to relay one, a law
has to keep to the row it chose. `graph_kinds` varies these views.
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
    plain_actions,
)
from waggle.corpus.views import words
from waggle.corpus.views.rng import Draw

_MANY_CONTACTS = (4, 6, 8)
_FEW_CONTACTS = (2, 3, 5)
"""Upper bounds of the contacts in a view; a plain task has few."""
_AGES = (0, 0, 0, 1, 2, 3, 5)
_ALL_AGES = range(MAX_TTL - 1)
"""Ages of traces in rounds; in a crowded task every age is equally likely."""
_CARRIED, _CARRIED_CROWDED = 30, 60
"""Percent of tasks in which claims carry stances, plain and crowded."""
_TEXTS = words.TEXTS["graphs"]


class GraphTask(NamedTuple):
    """One made-up task: its contract, keys and texts."""

    contract: Contract
    stance: str
    """The key of stances."""
    order: str
    """The key of ranks."""
    port_facts: Sequence[str]
    """Keys of further facts on ports."""
    claim_facts: Sequence[str]
    """Keys of further facts on claims."""
    unstated: str
    """The stance of a node that has stated nothing."""
    carried: bool
    """Whether claims carry the stances of their holders."""
    answers: Sequence[str]
    """What nodes state: actions, unless actions name a contact."""
    points: str
    """The verb that names a contact; empty where there is none."""
    plain: bool
    crowded: bool = False
    shape: str = "linked"
    """How its views are made (see `graph_kinds`)."""


def make_task(draw: Draw, *, crowded: bool = False) -> GraphTask:
    """Make up a task: its contract, and keys that are all different."""
    plain = draw.chance(50)
    drawn: dict[str, None] = {}
    while len(drawn) < 10:
        drawn[words.key(draw, common=plain)] = None
    keys = [draw.choice(_TEXTS["training_keys"]) if draw.chance(12) else key for key in drawn]
    if len(set(keys)) < len(keys):
        keys = list(drawn)
    unstated = draw.choice(_TEXTS["unstated"]) if draw.chance(60) else words.name(draw)
    points, carried = draw.chance(12), draw.chance(_CARRIED_CROWDED if crowded else _CARRIED)
    few = carried or points or draw.chance(45)
    actions = _actions(draw, 2 if few else draw.between(3, 9), unstated, plain)
    answers, verb = list(actions), ""
    if points:
        answers = [actions[1], words.name(draw), words.name(draw)]
        verb = actions[0][:30]
        actions = [f"{verb}:{CHANNEL_ARGUMENT}", actions[1]]
    more = draw.between(0, 4) if not plain else draw.below(2)
    port_facts, claim_facts = keys[2 : 2 + more], keys[7 : 7 + draw.between(0, 2) // (1 + plain)]
    return GraphTask(
        _contract(draw, actions), keys[0], keys[1], port_facts, claim_facts, unstated, carried,
        answers, verb, plain, crowded,
    )  # fmt: skip


def _actions(draw: Draw, count: int, unstated: str, plain: bool) -> list[str]:
    """Make up so many actions, none of which reads as an unstated stance."""
    actions: list[str] = []
    while len(actions) < count:
        actions = [a for a in words.actions(draw, count, common=plain) if a != unstated]
    return actions


def _contract(draw: Draw, actions: Sequence[str]) -> Contract:
    listed = list(actions)
    listed.insert(len(listed) if draw.chance(60) else draw.below(len(listed) + 1), WAIT)
    goal = words.goal(draw)
    if draw.chance(40):
        goal = f"{goal} {words.goal(draw)} {words.goal(draw)}"
    return Contract(words.task(draw), goal, tuple(listed), broadcast=True)


def renamed(draw: Draw, view: View) -> View:
    """Return a view under fresh names and row orders, which carry no information."""
    return orbit.sample(view, draw.bits()).view(view)


def draft(draw: Draw, task: GraphTask, contacts: int = 0) -> View:
    """Make up one view with fixed names: the own claim is z0, contacts are h0, h1 and so on.

    Args:
        draw: names every choice.
        task: the task.
        contacts: how many there are; drawn where it is 0.
    """
    contacts = contacts or _contacts(draw, task)
    silent = draw.choice((0, 0, 0, 10, 30, 30 if task.crowded else 100))
    spoke = [not draw.chance(silent) for _ in range(contacts)]
    count = 1 + sum(spoke) + (draw.between(0, 6) if task.carried else 0)
    own, *ranks = draw.some(range(count), count)
    stance = draw.choice(task.answers) if draw.chance(85) else task.unstated
    ports = _ports(draw, task, spoke, ranks, stance)
    # Claims beyond those of contacts that spoke have no holder among the contacts.
    holders = [number for number, stated in enumerate(spoke) if stated]
    holders += [-1] * (len(ranks) - len(holders))
    rows, traces = _claims(draw, task, own, list(zip(holders, ranks, strict=True)), contacts)
    observation: dict[str, Json] = {task.stance: stance, task.order: own}
    if draw.chance(60):
        observation[words.key(draw)] = str(draw.bits() >> draw.below(60))
    ready = ("z0",) if draw.chance(12) else ()
    private = Private(observation, (_own_evidence(draw),), ready, None, ports, rows)
    proposal = Proposal(_proposed(draw, task, stance, contacts), None, "z0")
    return View(task.contract, private, proposal, traces, None, draw.between(0, MAX_BIN))


def _contacts(draw: Draw, task: GraphTask) -> int:
    if task.crowded:
        return draw.between(2, draw.choice(_MANY_CONTACTS))
    fewest = 0 if draw.chance(5) else 1
    return draw.between(fewest, draw.choice(_FEW_CONTACTS if task.plain else _MANY_CONTACTS))


def _ports(
    draw: Draw, task: GraphTask, spoke: Sequence[bool], ranks: Sequence[int], stance: str
) -> tuple[Port, ...]:
    """Make the contacts; one in four that spoke has the stance of the node itself."""
    ports: list[Port] = []
    left = iter(ranks)
    for number, stated in enumerate(spoke):
        facts: dict[str, Fact] = {}
        if stated:
            alike = stance in task.answers and draw.chance(25)
            answer = stance if alike else draw.choice(task.answers)
            facts = {task.stance: answer, task.order: next(left)}
        shown = (key for key in task.port_facts if stated or draw.chance(40))
        facts |= {key: draw.between(0, MAX_BIN) for key in shown}
        ports.append(Port(f"h{number}", draw.between(0, MAX_LOT), dict(sorted(facts.items()))))
    return tuple(ports)


def _claims(
    draw: Draw, task: GraphTask, own: int, known: Sequence[tuple[int, int]], contacts: int
) -> tuple[tuple[ClaimRow, ...], tuple[Trace, ...]]:
    """Make the rows of the known claims, (holder, rank) each, and traces of them."""
    rows = [ClaimRow("z0", _claim_facts(draw, task, own, None))]
    traces: list[Trace] = []
    for number, (holder, rank) in enumerate(known, 1):
        stance = draw.choice(task.answers) if task.carried else None
        rows.append(ClaimRow(f"z{number}", _claim_facts(draw, task, rank, stance)))
        senders = {holder} - {-1}
        if contacts and (task.carried or draw.chance(10)):
            senders |= {draw.below(contacts) for _ in range(draw.between(0, 2 + task.crowded))}
        heard = [sender for sender in sorted(senders) if draw.chance(85)]
        traces += [make_trace(draw, task, f"h{sender}", f"z{number}") for sender in heard]
    if contacts and draw.chance(25):
        traces.append(make_trace(draw, task, f"h{draw.below(contacts)}", "z0"))
    listed = rows if draw.chance(85) or task.carried else []
    return tuple(listed), tuple(draw.some(traces, MAX_TRACES))


def _claim_facts(draw: Draw, task: GraphTask, rank: int, stance: str | None) -> dict[str, Fact]:
    facts: dict[str, Fact] = {task.order: rank}
    facts |= {key: draw.between(0, 5) for key in task.claim_facts}
    if stance is not None:
        facts[task.stance] = stance
    return dict(sorted(facts.items()))


def make_trace(draw: Draw, task: GraphTask, channel: str, claim: str) -> Trace:
    """Make up a trace of a claim on a channel."""
    age = draw.choice(_ALL_AGES if task.crowded else _AGES)
    support = draw.choice((1, MAX_BIN, MAX_BIN, draw.between(0, MAX_BIN)))
    return Trace(
        channel, claim, max(0, MAX_BIN - age), max(0, support - age // 2), 0, MAX_TTL - age
    )  # fmt: skip


def _own_evidence(draw: Draw) -> Evidence:
    novelty = MAX_BIN if draw.chance(80) else draw.between(0, MAX_BIN)
    support = MAX_BIN if draw.chance(80) else draw.between(1, MAX_BIN)
    return Evidence("z0", novelty, support, 0)


def _proposed(draw: Draw, task: GraphTask, stance: str, contacts: int) -> str:
    """Propose an action, often the one the node stands for."""
    if draw.chance(4):
        return WAIT
    if task.points and contacts and draw.chance(85):
        return f"{task.points}:h{draw.below(contacts)}"
    plain = plain_actions(task.contract)
    return stance if stance in plain and draw.chance(50) else draw.choice(plain)
