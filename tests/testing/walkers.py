"""A small world of walkers, honest and with the bugs that make an adapter organise the swarm.

Every other walker sees a well and tells on which side of it the well is. The honest world sends
along the side that the writer's view shows; each planted one sends or does more than a law asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import BaseModel

from waggle.core.protocols import Act, Case, Local, Sensed, Suggestion, Write
from waggle.core.schema import MAX_BIN, WAIT, Contract, Evidence, Fact
from waggle.core.seeds import derive
from waggle.core.world import WorldBase

WELL = "well"
STEPS = {"UP": (0, -1), "DOWN": (0, 1), "LEFT": (-1, 0), "RIGHT": (1, 0), "STAY": (0, 0)}
SIDES = {"UP": "N", "DOWN": "S", "LEFT": "W", "RIGHT": "E", "STAY": "HERE"}
BEAT = 4
Cell = tuple[int, int]


def towards(here: Cell, there: Cell) -> str:
    """Return the longer side's step from a cell to another."""
    x, y = there[0] - here[0], there[1] - here[1]
    if x == y == 0:
        return "STAY"
    if abs(x) >= abs(y):
        return "RIGHT" if x > 0 else "LEFT"
    return "DOWN" if y > 0 else "UP"


class Walkers(WorldBase):
    """Walkers on a plane, in contact with two others each; the well stands still."""

    readiness = "gate"
    contract = Contract("walkers", "Walk to the well.", (*STEPS, "SWITCH", WAIT), broadcast=True)

    def __init__(self, case: Case, keys: Sequence[int]) -> None:
        self.n, self.keys = case.n, tuple(keys)
        self.rounds = case.rounds or 10
        place = {body: node for node, body in enumerate(self.keys)}
        self._contacts = [
            (place[(body - 1) % self.n], place[(body + 1) % self.n]) for body in self.keys
        ]

        def drawn(purpose: str, key: int) -> Cell:
            bits = derive(case.seed, purpose, key)
            return bits % 13, bits // 13 % 13

        self.well = drawn("well", 0)
        self.cells = [drawn("walker", key) for key in self.keys]
        self.sees = [key % 2 == 0 for key in self.keys]
        self.flip = [derive(case.seed, "flip", key) % BEAT for key in self.keys]
        self.told: dict[int, object] = {}
        self.round = 0

    def neighbours(self, node: int) -> Sequence[int]:
        return self._contacts[node]

    def way(self, node: int) -> str | None:
        """Return the step that the node's view shows, as seen or as told."""
        if self.sees[node]:
            return towards(self.cells[node], self.well)
        told = self.told.get(node)
        return None if told is None else str(told)

    def sense(self, node: int, local: Local) -> Sensed:
        way, sees = self.way(node), self.sees[node]
        row: dict[str, Fact] = {} if way is None else {"way": SIDES[way]}
        side = None if way is None else SIDES[way]
        return Sensed(
            observation={"sees": int(sees)},
            proposal=Suggestion(way if sees and way is not None else "STAY"),
            evidence=(Evidence(WELL, MAX_BIN, MAX_BIN, 0, side),) if sees else (),
            claims={WELL: row} if row else {},
        )

    def payload(self, write: Write) -> object:
        return self.way(write.sender)

    def receive(self, write: Write, payload: object) -> Write:
        self.keep(write.receiver, payload)
        return write

    def keep(self, node: int, told: object) -> None:
        """Keep the smallest that was ever told, so that the order of messages does not matter."""
        self.told[node] = min((self.told.get(node, told), told), key=repr)

    def compiled(self, node: int, act: Act) -> str:
        """Return what a decision becomes."""
        if act.intent == WAIT or act.action == WAIT:
            return WAIT
        if act.intent == "FIELD" and act.local.commitment == WELL:
            return self.way(node) or act.action
        return act.action

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        native = {node: self.compiled(node, act) for node, act in acts.items()}
        for node, action in native.items():
            x, y = STEPS.get(action, (0, 0))
            self.cells[node] = self.cells[node][0] + x, self.cells[node][1] + y
        self.round += 1
        return native

    def score(self) -> Mapping[str, float]:
        return {"score": sum(cell == self.well for cell in self.cells) / self.n}


class MapCell(Walkers):
    """Sends along the well's cell, of which every view shows the side alone."""

    def way(self, node: int) -> str | None:
        told = self.told.get(node)
        if self.sees[node] or told is None:
            return super().way(node)
        assert isinstance(told, tuple)
        return towards(self.cells[node], told)

    def payload(self, write: Write) -> object:
        return self.well if self.sees[write.sender] else self.told.get(write.sender)


class KeptBeat(Walkers):
    """Sends along how long ago the writer flipped its light, and keeps that beat for the reader."""

    def way(self, node: int) -> str | None:
        return super().way(node) if self.sees[node] else None

    def payload(self, write: Write) -> object:
        return self.round - self.flip[write.sender]

    def receive(self, write: Write, payload: object) -> Write:
        assert isinstance(payload, int)
        self.keep(write.receiver, self.round - payload)
        return write

    def compiled(self, node: int, act: Act) -> str:
        beat = self.told.get(node)
        follows = act.intent == "FIELD" and act.local.commitment == WELL
        if not follows or not isinstance(beat, int):
            return super().compiled(node, act)
        return "SWITCH" if (self.round - beat) % BEAT == 0 else "STAY"


class Overriding(Walkers):
    """Walks to the well that a node is committed to, whatever its law says."""

    def compiled(self, node: int, act: Act) -> str:
        if act.local.commitment == WELL and act.action != WAIT:
            return towards(self.cells[node], self.well)
        return super().compiled(node, act)


class Obeying(Walkers):
    """Does what others say as soon as one of them says it."""

    def compiled(self, node: int, act: Act) -> str:
        heard = node in self.told and act.intent is None and act.action != WAIT
        return str(self.told[node]) if heard else super().compiled(node, act)


class Picking(Walkers):
    """Lets a node that holds nothing follow what it was told."""

    def compiled(self, node: int, act: Act) -> str:
        follows = act.intent == "FIELD" and act.action != WAIT
        return self.way(node) or act.action if follows else super().compiled(node, act)


class Deaf(Walkers):
    """Lets every node do its private proposal, whatever its law says."""

    def compiled(self, node: int, act: Act) -> str:
        waits = WAIT in (act.action, act.intent)
        proposed = self.sense(node, act.local).proposal.action
        return WAIT if waits else proposed


class Mumbling(Walkers):
    """Says of every action but waiting the same, and does it all the same."""

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        native = super().step(acts)
        return {node: WAIT if text == WAIT else "done" for node, text in native.items()}


class Binding(Walkers):
    """Refuses to walk away from the well that a node is committed to: that is waiting."""

    def compiled(self, node: int, act: Act) -> str:
        bound = act.local.commitment == WELL and act.intent != WAIT
        return "BOUND" if bound else super().compiled(node, act)


class Declared(MapCell):
    """Says that its frames carry task data."""

    snapshots = True


class NoOptions(BaseModel):
    """No options."""


class WalkersSubstrate:
    """A substrate around one of these worlds."""

    name: ClassVar[str] = "walkers"
    tasks: ClassVar[tuple[str, ...]] = ("walkers",)
    options: ClassVar[type[NoOptions]] = NoOptions

    def __init__(self, world: type[Walkers] = Walkers) -> None:
        self._world = world

    def open(self, case: Case, keys: Sequence[int] | None = None) -> Walkers:
        return self._world(case, range(case.n) if keys is None else keys)
