"""Poised views: tasks on graphs with much to read, whose answer hangs on what one contact says.

Stances drawn at random nearly always give the answer away by the node's place in the order alone,
and a law that learns from them compares nothing. Here, of the contacts that go first, one tips the
scales or none does; where claims carry stances, the node itself goes first in half of the views,
and word of whoever does comes from all sides. Rows carry more facts, as views of played tasks do:
some show one number throughout, one may tell the own claim from the others.
Invariant: as for linked views, nothing is played and no transfer task is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from waggle.core import orbit
from waggle.core.schema import MAX_TRACES, ClaimRow, Fact, Json, Port, Trace, View
from waggle.corpus.views import linked
from waggle.corpus.views import words as vocabulary
from waggle.corpus.views.linked import Words
from waggle.corpus.views.rng import Draw

_TOLD = 45
"""Percent of tasks in which claims carry stances."""
_FLAGGED = 40
"""Percent of tasks in which a fact tells the own claim from the others."""
_LEVEL = 30
"""Percent of further facts that show one number on all rows of a view."""
_MOST = 9
"""The largest such number; what is drawn row by row stays small."""
_AGREED = 70
"""Percent of views in which a claim carries the very stance that its holder stated."""
_SPREAD = 60
"""Percent of views in which every contact has passed on the claim that goes first."""

Facts: TypeAlias = Mapping[str, Fact]
_Row = TypeVar("_Row", Port, ClaimRow)


def task(draw: Draw, told: int = _TOLD) -> Words:
    """Make up a crowded task with further facts on every row.

    Args:
        draw: names every choice.
        told: percent of tasks in which claims carry stances.
    """
    carried = draw.chance(told)
    while (words := linked.task(Draw(draw.bits(), "task"), crowded=True)).told != carried:
        pass
    taken = {words.stance, words.order}
    ports = _keys(draw, words, taken, draw.between(2, 5))
    return words._replace(ports=ports, claims=_keys(draw, words, taken, draw.between(1, 3)))


def _keys(draw: Draw, words: Words, taken: set[str], count: int) -> list[str]:
    """Draw so many keys that are not taken, and take them."""
    found: list[str] = []
    while len(found) < count:
        key = vocabulary.key(draw, common=words.common)
        if key not in taken:
            taken.add(key)
            found.append(key)
    return found


def make(draw: Draw, words: Words) -> View:
    """Make up one view of a task."""
    view = linked.named(draw, words)
    view = _told(draw, words, view) if words.told else tipped(draw, words, view)
    view = levelled(draw, words, view)
    return orbit.sample(view, draw.bits()).view(view)


def tipped(draw: Draw, words: Words, view: View) -> View:
    """State the answers of contacts anew: of those that go first one tips the scales, or none does.

    What tips them is the own answer among many, and among two the second.
    """
    seen = view.private.observation
    tip = str(seen[words.stance]) if len(words.spoken) > 2 else words.spoken[-1]
    others = [word for word in words.spoken if word != tip]
    own = place_of(seen, words, 0)
    before = [p.channel for p in view.private.channels if place_of(p.facts, words, own) < own]
    tips = draw.choice(before) if before and draw.chance(50) else ""

    def stated(port: Port) -> Facts:
        if words.stance not in port.facts:
            return port.facts
        after = port.channel not in before and draw.chance(50)
        said = tip if after or port.channel == tips else draw.choice(others)
        return {**port.facts, words.stance: said}

    return _with(view, ports=_each(view.private.channels, stated))


def _told(draw: Draw, words: Words, view: View) -> View:
    """Let the node go first in half of the views, and word of who does come from all sides."""
    own = place_of(view.private.observation, words, 0)
    if own and draw.chance(50):
        view = swapped(view, words, own, 0)
    if draw.chance(_AGREED):
        view = agreed(view, words)
    first = next((r.claim for r in view.private.claims if place_of(r.facts, words, -1) == 0), None)
    if first is None or not draw.chance(_SPREAD):
        return view
    heard = {trace.channel for trace in view.traces if trace.claim == first}
    ports = [p.channel for p in view.private.channels if words.stance in p.facts]
    word = [linked.trace(draw, words, c, first) for c in ports if c not in heard]
    traces: Sequence[Trace] = [*word, *view.traces]
    return msgspec.structs.replace(view, traces=tuple(traces[:MAX_TRACES]))


def swapped(view: View, words: Words, own: int, other: int) -> View:
    """Let the node and whoever has another place in the order change places."""

    def moved(row: Port | ClaimRow) -> Facts:
        place = {other: own, own: other}.get(place_of(row.facts, words, -1))
        return row.facts if place is None else {**row.facts, words.order: place}

    private = view.private
    rows = _each(private.channels, moved), _each(private.claims, moved)
    observation = {**private.observation, words.order: other}
    private = msgspec.structs.replace(private, observation=observation)
    return _with(msgspec.structs.replace(view, private=private), *rows)


def agreed(view: View, words: Words) -> View:
    """Let claims carry what their holders stated, where those are contacts."""
    said = {
        place_of(port.facts, words, -1): port.facts[words.stance]
        for port in view.private.channels
        if words.stance in port.facts
    }

    def carried(row: ClaimRow) -> Facts:
        place = place_of(row.facts, words, -1)
        if words.stance not in row.facts or place not in said:
            return row.facts
        return {**row.facts, words.stance: said[place]}

    return _with(view, claims=_each(view.private.claims, carried))


def levelled(draw: Draw, words: Words, view: View) -> View:
    """Let some further facts show one number on all rows, and one tell the own claim apart."""
    level = {
        key: draw.between(0, _MOST) for key in (*words.ports, *words.claims) if draw.chance(_LEVEL)
    }
    flag = words.claims[0] if _flagged(words) else None

    def shown(row: Port | ClaimRow) -> Facts:
        facts = {key: level.get(key, value) for key, value in row.facts.items()}
        if flag is not None and isinstance(row, ClaimRow):
            facts[flag] = int(row.claim == "z0")
        return facts

    private = view.private
    return _with(view, ports=_each(private.channels, shown), claims=_each(private.claims, shown))


def _flagged(words: Words) -> bool:
    """Whether a task tells the own claim apart: drawn once for a task, so by its name."""
    return Draw(0, "flag", words.contract.task, words.stance).chance(_FLAGGED)


def place_of(facts: Mapping[str, Json], words: Words, unknown: int) -> int:
    """Return the place in the order that facts show, or what stands for none."""
    place = facts.get(words.order)
    return place if isinstance(place, int) else unknown


def _each(rows: Sequence[_Row], facts: Callable[[_Row], Facts]) -> tuple[_Row, ...]:
    return tuple(
        msgspec.structs.replace(row, facts=dict(sorted(facts(row).items()))) for row in rows
    )


def _with(
    view: View, ports: tuple[Port, ...] | None = None, claims: tuple[ClaimRow, ...] | None = None
) -> View:
    private = view.private
    private = msgspec.structs.replace(
        private,
        channels=private.channels if ports is None else ports,
        claims=private.claims if claims is None else claims,
    )
    return msgspec.structs.replace(view, private=private)
