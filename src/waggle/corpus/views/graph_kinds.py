"""Kinds of views of made-up tasks on graphs; each asks a law for one more thing.

* `linked`: tasks of `graph_tasks`; `crowded`: with many traces of the same claims.
* `poised`: pivotal views. Random stances nearly always give the answer away by the node's own rank,
  and a law that learns from them compares nothing. Here one of the contacts before the node decides
  the answer, or none does; rows carry more facts, some with one number throughout.
* `eased`: simple pivotal views (one to three contacts, hardly a trace or fact), where comparing
  contacts is learned first.
* `relays`: late views of tasks in which claims carry stances. Nodes relay the claim that goes first
  by one of several traces of it, whose strength and lifetime do not follow from each other.
* `agreed`: tasks of all these shapes whose goal asks all nodes for the same answer, and near misses
  in the same words, so that neither a word nor the shape of a view gives the answer away.

The names are those of the settings; recorded corpora and recipes depend on them, as they do on the
names of the draws. Invariant: a stream of views is a pure function of its salt; no view is labelled
here, nothing is played and no transfer task is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from waggle.core.schema import (
    MAX_BIN,
    MAX_TRACES,
    MAX_TTL,
    ClaimRow,
    Fact,
    Json,
    Port,
    Trace,
    View,
)
from waggle.corpus.views import goal_texts, words
from waggle.corpus.views.graph_tasks import GraphTask, draft, make_task, make_trace, renamed
from waggle.corpus.views.rng import Draw

PER_TASK = 10
"""Views in a row of one task: a shared prompt is tokenised once."""

_CARRIED, _CARRIED_SIMPLE = 45, 15
"""Percent of pivotal tasks in which claims carry stances; simple ones leave little to compare."""
_FLAGGED = 40
"""Percent of pivotal tasks in which a fact marks the own claim."""
_LEVEL, _TOP_LEVEL = 30, 9
"""Percent of further facts that have one number on all rows of a view, and the largest such."""
_CONSISTENT = 70
"""Percent of views in which a claim carries the very stance that its holder stated."""
_SPREAD = 60
"""Percent of pivotal views in which every contact has relayed the claim that goes first."""
_FEW = (1, 1, 2, 2, 3)
"""Contacts of a simple view."""
_STATED_GOAL = 50
"""Percent of simple and relay tasks whose goal says what is asked."""
_NO_TRACE = 60
"""Percent of simple views without a trace."""
_NOT_FIRST = 80
"""Percent of simple views in which the node does not go first: it would have nothing to compare."""
_FIRST = 20
"""Percent of relay views in which the node is moved to go first."""
_SENDERS = (50, 80, 95, 100)
"""Percent of contacts with a trace of the claim that goes first, in one relay view."""
_LATE = (0, 0, 0, 1, 1, 2, 3, 4, 5)
"""Rounds since most traces of a relay view arrived."""
_AGREEMENT = 55
"""Percent of agreement tasks that are no near miss."""

Facts: TypeAlias = Mapping[str, Fact]
_Row = TypeVar("_Row", Port, ClaimRow)


def views(kind: str, salt: int, count: int) -> Iterator[View]:
    """Make so many views of one of the `KINDS`; the salt names every draw."""
    stream, tasks, make = KINDS[kind]
    for number in range(count):
        if number % PER_TASK == 0:
            task = make(Draw(salt, tasks, number))
        yield view(Draw(salt, stream, number), task)


def view(draw: Draw, task: GraphTask) -> View:
    """Make up one view of a task, by its shape."""
    return renamed(draw, _SHAPES[task.shape](draw, task))


def _redrawn(
    draw: Draw, purpose: str, make: Callable[[Draw], GraphTask], fits: Callable[[GraphTask], bool]
) -> GraphTask:
    """Make up tasks until one fits."""
    while not fits(task := make(Draw(draw.bits(), purpose))):
        pass
    return task


def pivotal_task(draw: Draw, carried: int = _CARRIED) -> GraphTask:
    """Make up a crowded task with further facts on every row.

    Args:
        draw: names every choice.
        carried: percent of tasks in which claims carry stances.
    """
    carries = draw.chance(carried)
    crowded = partial(make_task, crowded=True)
    task = _redrawn(draw, "task", crowded, lambda task: task.carried == carries)
    taken = {task.stance, task.order}
    port_facts = _keys(draw, task, taken, draw.between(2, 5))
    claim_facts = _keys(draw, task, taken, draw.between(1, 3))
    return task._replace(port_facts=port_facts, claim_facts=claim_facts, shape="poised")


def _keys(draw: Draw, task: GraphTask, taken: set[str], count: int) -> list[str]:
    """Draw so many keys that are not taken, and take them."""
    found: list[str] = []
    while len(found) < count:
        key = words.key(draw, common=task.plain)
        if key not in taken:
            taken.add(key)
            found.append(key)
    return found


def simple_task(draw: Draw) -> GraphTask:
    """Make up a plain task in which no answer names a contact."""
    carries = draw.chance(_CARRIED_SIMPLE)
    task = _redrawn(
        draw, "task", make_task, lambda t: t.plain and not t.points and t.carried == carries
    )  # fmt: skip
    more = draw.chance(20)
    # As in a crowded task, nearly all contacts have spoken.
    task = task._replace(
        port_facts=task.port_facts[:more], claim_facts=task.claim_facts[:more], crowded=True,
        shape="eased",
    )  # fmt: skip
    return _near_miss(draw, task) if draw.chance(_STATED_GOAL) else task


def relay_task(draw: Draw) -> GraphTask:
    """Make up a task in which claims carry stances, with further facts on every row."""
    pivotal = partial(pivotal_task, carried=100)
    task = _redrawn(draw, "relays", pivotal, lambda task: not task.points)
    task = task._replace(shape="relays")
    return _near_miss(draw, task) if draw.chance(_STATED_GOAL) else task


def agreement_task(draw: Draw) -> GraphTask:
    """Make up a task of any shape whose goal asks for agreement, or nearly does."""
    shapes = (make_task, partial(make_task, crowded=True), pivotal_task, simple_task)
    shape = draw.below(6)
    make = shapes[shape] if shape < len(shapes) else relay_task
    task = _redrawn(draw, "shape", make, lambda task: not task.points)
    if not draw.chance(_AGREEMENT):
        return _near_miss(draw, task)
    return _with_goal(task, goal_texts.goal(draw, "alike", task.answers))


def _near_miss(draw: Draw, task: GraphTask) -> GraphTask:
    return _with_goal(task, goal_texts.near_miss(draw, task.answers, task.carried))


def _with_goal(task: GraphTask, goal: str) -> GraphTask:
    return task._replace(contract=msgspec.structs.replace(task.contract, goal=goal))


def _pivotal(draw: Draw, task: GraphTask) -> View:
    view = draft(draw, task)
    view = _first_known(draw, task, view) if task.carried else _decided_by_one(draw, task, view)
    return _levelled(draw, task, view)


def _simple(draw: Draw, task: GraphTask) -> View:
    view = draft(draw, task, draw.choice(_FEW))
    own = _rank(view.private.observation, task, 0)
    last = max(_rank(port.facts, task, -1) for port in view.private.channels)
    if own == 0 and last > 0 and draw.chance(_NOT_FIRST):
        view = _swapped(view, task, own, last)
    if not task.carried:
        view = _decided_by_one(draw, task, view)
    return msgspec.structs.replace(view, traces=()) if draw.chance(_NO_TRACE) else view


def _relayed(draw: Draw, task: GraphTask) -> View:
    view = draft(draw, task)
    own = _rank(view.private.observation, task, 0)
    if own and draw.chance(_FIRST):
        view = _swapped(view, task, own, 0)
    if draw.chance(_CONSISTENT):
        view = _consistent(view, task)
    traces = draw.some(list(_old_traces(draw, task, view)), MAX_TRACES)
    return _levelled(draw, task, msgspec.structs.replace(view, traces=tuple(traces)))


def _decided_by_one(draw: Draw, task: GraphTask, view: View) -> View:
    """Redraw the stances of contacts: of those before the node, one decides its answer or none.

    The deciding stance is the own one where there are many answers, and the second of two.
    """
    seen = view.private.observation
    deciding = str(seen[task.stance]) if len(task.answers) > 2 else task.answers[-1]
    others = [answer for answer in task.answers if answer != deciding]
    own = _rank(seen, task, 0)
    before = [p.channel for p in view.private.channels if _rank(p.facts, task, own) < own]
    chosen = draw.choice(before) if before and draw.chance(50) else ""

    def stated(port: Port) -> Facts:
        if task.stance not in port.facts:
            return port.facts
        after = port.channel not in before and draw.chance(50)
        stance = deciding if after or port.channel == chosen else draw.choice(others)
        return {**port.facts, task.stance: stance}

    return _with_rows(view, _each(view.private.channels, stated), view.private.claims)


def _first_known(draw: Draw, task: GraphTask, view: View) -> View:
    """Let the node go first in half of the views; spread traces of the claim that goes first."""
    own = _rank(view.private.observation, task, 0)
    if own and draw.chance(50):
        view = _swapped(view, task, own, 0)
    if draw.chance(_CONSISTENT):
        view = _consistent(view, task)
    first = next((r.claim for r in view.private.claims if _rank(r.facts, task, -1) == 0), None)
    if first is None or not draw.chance(_SPREAD):
        return view
    heard = {trace.channel for trace in view.traces if trace.claim == first}
    spoke = [p.channel for p in view.private.channels if task.stance in p.facts]
    more = [make_trace(draw, task, channel, first) for channel in spoke if channel not in heard]
    return msgspec.structs.replace(view, traces=(*more, *view.traces)[:MAX_TRACES])


def _swapped(view: View, task: GraphTask, own: int, other: int) -> View:
    """Let the node and the holder of another rank change ranks."""

    def moved(row: Port | ClaimRow) -> Facts:
        rank = {other: own, own: other}.get(_rank(row.facts, task, -1))
        return row.facts if rank is None else {**row.facts, task.order: rank}

    private = view.private
    rows = _each(private.channels, moved), _each(private.claims, moved)
    observation = {**private.observation, task.order: other}
    private = msgspec.structs.replace(private, observation=observation)
    return _with_rows(msgspec.structs.replace(view, private=private), *rows)


def _consistent(view: View, task: GraphTask) -> View:
    """Let claims carry the stance that their holders stated, where those are contacts."""
    stated = {
        _rank(port.facts, task, -1): port.facts[task.stance]
        for port in view.private.channels
        if task.stance in port.facts
    }

    def carried(row: ClaimRow) -> Facts:
        rank = _rank(row.facts, task, -1)
        if task.stance not in row.facts or rank not in stated:
            return row.facts
        return {**row.facts, task.stance: stated[rank]}

    return _with_rows(view, view.private.channels, _each(view.private.claims, carried))


def _levelled(draw: Draw, task: GraphTask, view: View) -> View:
    """Give some further facts one number on all rows, and let one mark the own claim."""
    keys = (*task.port_facts, *task.claim_facts)
    level = {key: draw.between(0, _TOP_LEVEL) for key in keys if draw.chance(_LEVEL)}
    # Whether a task marks the own claim is drawn once for it, so by its name.
    marks = Draw(0, "flag", task.contract.task, task.stance).chance(_FLAGGED)
    mark = task.claim_facts[0] if marks else None

    def shown(row: Port | ClaimRow) -> Facts:
        facts = {key: level.get(key, value) for key, value in row.facts.items()}
        if mark is not None and isinstance(row, ClaimRow):
            facts[mark] = int(row.claim == "z0")
        return facts

    private = view.private
    return _with_rows(view, _each(private.channels, shown), _each(private.claims, shown))


def _old_traces(draw: Draw, task: GraphTask, view: View) -> Iterator[Trace]:
    """Make traces, from contacts that spoke, of the claim that goes first and of some others."""
    rows = view.private.claims
    first = [row.claim for row in rows if _rank(row.facts, task, -1) == 0]
    others = [row.claim for row in rows if row.claim not in first]
    senders, late = draw.choice(_SENDERS), draw.choice(_LATE)
    for port in view.private.channels:
        if task.stance not in port.facts:
            continue
        if draw.chance(senders):
            yield from (_old_trace(draw, port.channel, claim, late) for claim in first)
        for claim in draw.some(others, draw.choice((0, 1, 1, 2, 2, 3))):
            yield _old_trace(draw, port.channel, claim, 0 if draw.chance(25) else late)


def _old_trace(draw: Draw, channel: str, claim: str, late: int) -> Trace:
    """Make up a trace that has aged where it lies, and perhaps before it was relayed."""
    hops = draw.choice((0, 0, 1, 1, 1, 2, 3))
    age = late + draw.choice((0, 0, 0, 1, 1, 2))
    lost = age + (draw.choice((0, 0, 1, 2)) if hops else 0)
    support = MAX_BIN if draw.chance(85) else draw.between(1, MAX_BIN)
    return Trace(
        channel, claim, max(0, MAX_BIN - lost), max(0, support - lost // 2), 0,
        max(1, MAX_TTL - lost - hops),
    )  # fmt: skip


def _rank(facts: Mapping[str, Json], task: GraphTask, unknown: int) -> int:
    """Return the rank that facts show, or a default."""
    rank = facts.get(task.order)
    return rank if isinstance(rank, int) else unknown


def _each(rows: Sequence[_Row], facts: Callable[[_Row], Facts]) -> tuple[_Row, ...]:
    return tuple(
        msgspec.structs.replace(row, facts=dict(sorted(facts(row).items()))) for row in rows
    )


def _with_rows(view: View, ports: tuple[Port, ...], claims: tuple[ClaimRow, ...]) -> View:
    private = msgspec.structs.replace(view.private, channels=ports, claims=claims)
    return msgspec.structs.replace(view, private=private)


_SHAPES: Mapping[str, Callable[[Draw, GraphTask], View]] = {
    "linked": draft, "poised": _pivotal, "eased": _simple, "relays": _relayed,
}  # fmt: skip
"""What makes a view, by the shape of its task."""
KINDS: Mapping[str, tuple[str, str, Callable[[Draw], GraphTask]]] = {
    "linked": ("linked", "task", make_task),
    "crowded": ("linked", "task", partial(make_task, crowded=True)),
    "poised": ("poised", "poised task", pivotal_task),
    "eased": ("eased", "eased task", simple_task),
    "relays": ("relays", "relays task", relay_task),
    "agreed": ("agreed", "agreed task", agreement_task),
}
"""What names the draws of views and of tasks, and what makes a task, by kind."""
