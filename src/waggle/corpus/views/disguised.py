"""Disguised views: spatial views under a made-up contract, for which the teacher has no own rule.

A law that has memorised two spatial tasks must still act well in a third. So views of the training
tasks, and situations in spatial frames, get another contract: another name and goal, renamed or
further actions, other observation keys, symbols and kinds of claims. The contract describes an
action that follows a claim, so the expert plays it by its general rule for spatial tasks, and
the label depends on the new view alone. Invariant: references, bins, lots and the proposal's
position in the action list stay as they are; no word of a transfer task is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from waggle.core.schema import (
    CLAIM_ARGUMENT,
    DIRECTIONS,
    MAX_FACT,
    WAIT,
    ClaimRow,
    Contract,
    Fact,
    Json,
    Port,
    View,
    action_argument,
    plain_actions,
    takes_claim,
)
from waggle.corpus.views import situations, words
from waggle.corpus.views.frames import Frame
from waggle.corpus.views.rng import Draw

_MOVES = ("UP", "DOWN", "LEFT", "RIGHT", "STAY")
"""The actions of the spatial training tasks."""
_FOLLOW = "FOLLOW"
"""The verb of the spatial training tasks that takes a claim."""
_LONGEST_VERB = 30
_FARTHEST = 7
"""The largest bin of cells down or right."""
_OLDEST = 9
"""The largest age that a view shows."""
_SHARED = 4
"""Sentences at the end of a spatial training contract that do not state its goal."""
_SYMBOLS = "CDEGHIJKLMOQRSTUVXZ#+%=o"


class Disguise(NamedTuple):
    """A made-up spatial task: its contract, and its names for the moves of another task."""

    contract: Contract
    renamed: Mapping[str, str]


def make_disguise(draw: Draw, known: Contract | None = None) -> Disguise:
    """Make up a spatial task.

    Args:
        draw: the random stream.
        known: the contract of a training task; its moves are renamed or kept, and so may be the
            part of its goal that spatial tasks share.
    """
    moves = _MOVES if known is None else tuple(plain_actions(known))
    if known is None and draw.chance(30):
        moves = tuple(words.actions(draw, draw.between(1, 8)))
    kept = draw.chance(45)
    style = str.upper if kept else words.case(draw)
    names = list(moves) if kept else words.actions(draw, len(moves), style)
    further = words.actions(draw, draw.choice((0, 0, 1, 1, 2, 3)), style)
    verb = _FOLLOW if kept else words.actions(draw, 1, style)[0][:_LONGEST_VERB]
    listed = list(names if kept or draw.chance(60) else draw.some(names, len(names)))
    for action in (*(a for a in further if a not in names), f"{verb}:{CLAIM_ARGUMENT}", WAIT):
        listed.insert(len(listed) if draw.chance(60) else draw.below(len(listed) + 1), action)
    task = words.task(draw)
    if draw.chance(40):
        task = f"swarmbench/{task.partition('/')[2]}"[:MAX_FACT]
    goal = f"{words.goal(draw)} {_explanation(draw, verb, known)}"
    contract = Contract(task, goal, tuple(listed), broadcast=True)
    return Disguise(contract, dict(zip(moves, names, strict=True)))


def _explanation(draw: Draw, verb: str, known: Contract | None) -> str:
    """Return a text on what following a claim means, as in the training tasks or reworded."""
    if known is None or draw.chance(40):
        text = draw.choice(words.TEXTS["disguised"]["follow"]).format(verb=verb)
        return text if draw.chance(60) else f"{text} {words.sentence(draw)}"
    old = next(action_argument(a)[0] for a in known.actions if takes_claim(a))
    return ". ".join(known.goal.split(". ")[-_SHARED:]).replace(old, verb)


def apply(view: View, disguise: Disguise, draw: Draw) -> View:
    """Return a spatial view as the disguised task would show it."""
    contract = disguise.contract
    action = disguise.renamed.get(view.proposal.action, WAIT)
    if action != WAIT and draw.chance(20):
        action = draw.choice(plain_actions(contract))
    rows = _Rows(draw)
    private = msgspec.structs.replace(
        view.private,
        observation=_observation(view.private.observation, draw),
        evidence=tuple(map(rows.record, view.private.evidence)),
        channels=tuple(map(rows.port, view.private.channels)),
        claims=tuple(map(rows.claim, view.private.claims)) if rows.listed else (),
    )
    return msgspec.structs.replace(
        view,
        contract=contract,
        private=private,
        proposal=msgspec.structs.replace(view.proposal, action=action),
        traces=tuple(map(rows.record, view.traces)),
    )


class _Rows:
    """A rewriting of the tables of a view, consistent over all rows."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.listed = not draw.chance(12)
        self._pointed = not draw.chance(30)
        self._sourced = self._pointed and not draw.chance(15)
        aged = draw.below(5)
        self._aged = ("age", "age", "age", "")[aged] if aged < 4 else words.key(draw)
        self._port_key = words.key(draw) if draw.chance(33) else ""
        self._kinds: dict[Fact, str] = {}

    def record(self, row: Any) -> Any:
        """Rewrite a trace or a piece of evidence."""
        return row if self._pointed else msgspec.structs.replace(row, direction=None)

    def port(self, port: Port) -> Port:
        """Rewrite the facts of a port."""
        values = [v for v in port.facts.values() if isinstance(v, int)]
        facts = {self._port_key: values[0]} if self._port_key and values else {}
        return Port(port.channel, port.lot, facts)

    def claim(self, row: ClaimRow) -> ClaimRow:
        """Rewrite the facts of a claim."""
        facts: dict[str, Fact] = {}
        for key, value in row.facts.items():
            if key == "kind":
                facts["kind"] = self._kinds.setdefault(value, words.name(self._draw)[:40])
            elif key == "age":
                facts |= {self._aged: value} if self._aged else {}
            elif key in ("down", "right"):
                facts |= {key: value} if self._pointed else {}
            elif key != "source" or self._sourced:
                facts[key] = value
        return ClaimRow(row.claim, dict(sorted(facts.items())))


def _observation(seen: Mapping[str, Json], draw: Draw) -> dict[str, Json]:
    """Rewrite private content: other symbols in the window, other keys and values."""
    made: dict[str, Json] = {}
    window = seen.get("window")
    if isinstance(window, list | tuple) and not draw.chance(8):
        name = "window" if draw.chance(65) else words.key(draw)
        made[name] = _window([str(line) for line in window], draw)
    for _ in range(draw.choice((0, 0, 1, 1, 2))):
        made[words.key(draw)] = _value(draw)
    return made


def _window(lines: list[str], draw: Draw) -> list[Json]:
    """Rewrite the symbols of a task; bodies, walls and the outside stay."""
    swap = {letter: draw.choice(_SYMBOLS) if draw.chance(70) else "." for letter in "PFN"}
    if draw.chance(30):
        swap |= {"A": "a"} if draw.chance(50) else {"A": "a", "a": "A"}
    table = str.maketrans(swap)
    return [line.translate(table) for line in lines]


def _value(draw: Draw) -> Json:
    kind = draw.below(6)
    if kind == 0:
        return draw.chance(50)
    if kind == 1:
        return draw.choice(DIRECTIONS) if draw.chance(60) else None
    if kind == 2:
        return draw.below(draw.choice((5, 20, 1000)))
    if kind == 3:
        return [draw.below(20) for _ in range(draw.between(1, 5))]
    return words.name(draw)


def make_frame(draw: Draw, disguise: Disguise) -> Frame:
    """Make up a spatial frame under a disguise, for situations of every class."""
    contract = disguise.contract
    free = plain_actions(contract)
    pointed = draw.chance(65)
    kinds = [words.name(draw)[:40] for _ in range(draw.between(1, 3))]
    sourced = pointed and draw.chance(85)
    port_key = words.key(draw) if draw.chance(33) else ""
    observation: dict[str, Json] = {}
    if draw.chance(75):
        observation["window" if draw.chance(65) else words.key(draw)] = _made_up_window(draw)
    for _ in range(draw.choice((0, 1, 1, 2))):
        observation[words.key(draw)] = _value(draw)
    return Frame(
        contract,
        observation,
        draw.choice(list(disguise.renamed.values()) if draw.chance(60) else free),
        None,
        False,
        pointed,
        [{port_key: draw.below(3)} if port_key else {} for _ in range(6)],
        [] if draw.chance(10) else [_facts(draw, kinds, pointed, sourced) for _ in range(4)],
    )


def _facts(draw: Draw, kinds: list[str], pointed: bool, sourced: bool) -> dict[str, Fact]:
    """Make up the facts of a claim: its kind, whether it was seen or told, where it is, its age."""
    facts: dict[str, Fact] = {"kind": draw.choice(kinds)}
    if sourced and not draw.chance(15):
        facts["source"] = draw.choice(("told", "seen"))
    if pointed and not draw.chance(15):
        facts["down"] = draw.between(-_FARTHEST, _FARTHEST)
        facts["right"] = draw.between(-_FARTHEST, _FARTHEST)
        facts |= {"age": draw.between(0, _OLDEST)} if draw.chance(60) else {}
    return dict(sorted(facts.items()))


def _made_up_window(draw: Draw) -> list[Json]:
    """Make up a window: five by five cells, mostly empty, the node itself in the middle."""
    cells = "." * draw.between(10, 40) + draw.choice(("A", "Aa", "a", "")) + draw.choice(_SYMBOLS)
    wall = draw.below(12)
    lines = [["." if draw.chance(60) else draw.choice(cells) for _ in range(5)] for _ in range(5)]
    if wall < 2:
        lines[wall] = ["W"] * 5
    elif wall < 4:
        for line in lines:
            line[wall] = "W"
    lines[2][2] = "Y"
    return ["".join(line) for line in lines]


def bundles(salt: int, count: int) -> Iterator[View]:
    """Yield `count` bundles of situations in disguised spatial frames."""

    def frames(task: Draw) -> situations.FrameOf:
        disguise = make_disguise(task)
        return lambda draw: make_frame(draw, disguise)

    return situations.bundles(salt, count, frames, crowded=35)
