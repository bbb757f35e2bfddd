"""The task's part of an episode: a private plan, evidence, facts, reports, a way to a claim.

Only four methods determine what communication can do. `facts` returns what a view shows of the
claims a node knows; `payload` sends only the shown bearing and age of the written claim; `receive`
stores the place that these bins stand for, counted from the writer's cell on arrival, and the next
view shows it in the same bins; `walk` returns one step towards a claim that the law named or holds.
Invariant: only `look` changes memories from windows, and only `receive` from messages.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ClassVar, NamedTuple

import msgspec

from waggle.core.protocols import Local, Shock, Write
from waggle.core.schema import MAX_BIN, Evidence, Fact, Json
from waggle.substrates.swarmbench.agent.bearing import Bearing, bearing, estimate
from waggle.substrates.swarmbench.agent.compass import add, chebyshev, octant, sub
from waggle.substrates.swarmbench.agent.navigate import approach
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import ACTION_NAMES, Cell

MOST_AGE = 9
"""Largest age, in rounds, that is shown or sent."""


class Plan(NamedTuple):
    """A private movement proposal, and whether it follows the agent's own route."""

    move: str
    route: bool


class Report(NamedTuple):
    """The payload of a write: the place of its claim as the writer's view shows it."""

    place: Bearing
    age: int


class Behaviour:
    """The task-specific half of an episode; the defaults suit a task whose claims have no place."""

    goal: ClassVar[str] = ""
    """The goal of the task as every node reads it: no population, sizes or scores."""
    actions: ClassVar[tuple[str, ...]] = ACTION_NAMES
    places: ClassVar[bool] = True
    """Whether claims have places, so that a law can follow one."""
    refresh: int | None = 12
    """Rounds after which a repeated write counts as a refresh; None: evidence is sent once."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def look(self, node: int) -> Plan:
        """Update private memory from the current window and plan the private move."""
        raise NotImplementedError

    def observation(self, node: int) -> Mapping[str, Json]:
        """Return the task's own part of the observation."""
        return {}

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Return the claims that the node's own observations support or contradict."""
        raise NotImplementedError

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """Return bounded facts of the claims known to the node."""
        raise NotImplementedError

    def ports(self, node: int) -> Mapping[int, Mapping[str, Fact]]:
        """Return bounded facts of the node's contacts."""
        return {}

    def content(self, write: Write) -> Hashable:
        """Return what distinguishes two writes of one claim to one receiver, or None."""
        return None

    def payload(self, write: Write) -> Report | None:
        """Return the payload of a write, or None if its claim has no place."""
        return None

    def receive(self, write: Write, payload: object) -> Write:
        """Store a delivered write in private memory; set its direction as seen by the reader."""
        return write

    def walk(self, node: int, claim: str) -> str | None:
        """Return one step towards a claim, or None if the view shows no place of it."""
        return None

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject late counterevidence if it is due; only Pursuit and Foraging have any."""
        return None

    def standing(self, node: int) -> float | None:
        """Return a node's progress, for learning from outcomes, or None if it is not measured."""
        return None

    def report(self, node: int, cell: Cell, age: int = 0) -> Report:
        """Return the bins in which a node's view shows a place."""
        place = bearing(sub(cell, self.scene.memories[node].here))
        return Report(place, min(max(age, 0), MOST_AGE))

    def place_of(self, write: Write, report: Report) -> Cell:
        """Return the reported place of a claim, in the reader's frame.

        The bins count from the writer's cell when it wrote, and are applied to its cell on arrival,
        which is in the reader's window. A reported place is therefore off by the writer's steps in
        between, usually one.
        """
        scene = self.scene
        writer = sub(scene.cells[write.sender], scene.cells[write.receiver])
        here = scene.memories[write.receiver].here
        return add(add(here, writer), estimate(report.place))


class Landmark(Behaviour):
    """The common part of Flocking and Transport: one landmark, and one claim that it is known.

    The landmark is the middle of the map or the plugged exit. Invariant: a reported place is stored
    apart from the place that the node found, so the private proposal never depends on a report.
    """

    kind = ""
    """Name of the landmark, which is the task's one claim."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.heard: list[Cell | None] = [None] * len(scene.keys)
        """The reported place of the landmark by node, in the node's own frame."""

    def found(self, node: int) -> Cell | None:
        """Return the landmark as the node found it, in its own frame, or None."""
        raise NotImplementedError

    def known(self, node: int) -> Cell | None:
        """Return the landmark as found, else as reported, else None."""
        cell = self.found(node)
        return self.heard[node] if cell is None else cell

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Return evidence of the landmark if the node found it; nothing can contradict it."""
        cell = self.found(node)
        if cell is None:
            return ()
        return (Evidence(self.kind, MAX_BIN, MAX_BIN, 0, self._direction(node, cell)),)

    def _direction(self, node: int, cell: Cell) -> str:
        return octant(sub(cell, self.scene.memories[node].here))

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """Return whether the landmark was seen or reported, and where it is."""
        cell = self.known(node)
        if cell is None:
            return {}
        source = "told" if self.found(node) is None else "seen"
        place = self.report(node, cell).place
        return {self.kind: {"kind": self.kind, "source": source, **place._asdict()}}

    def payload(self, write: Write) -> Report | None:
        """Return the place at which the writer's view shows the landmark."""
        cell = self.known(write.sender)
        return None if cell is None else self.report(write.sender, cell)

    def receive(self, write: Write, payload: object) -> Write:
        """Keep the nearest reported place, which has the finest bins; point to the one received."""
        if not isinstance(payload, Report):
            return write
        node, here = write.receiver, self.scene.memories[write.receiver].here
        cell, known = self.place_of(write, payload), self.heard[node]
        places = [cell] if known is None else [cell, known]
        self.heard[node] = min(places, key=lambda place: (chebyshev(place, here), place))
        return msgspec.structs.replace(write, direction=self._direction(node, cell))

    def walk(self, node: int, claim: str) -> str | None:
        """Return a step towards the landmark, or None once it is near."""
        cell = self.known(node) if claim == self.kind else None
        if cell is None:
            return None
        offset = sub(cell, self.scene.memories[node].here)
        if octant(offset) == "HERE":
            return None
        return approach(self.scene.windows[node], offset, self.scene.draw(node))
