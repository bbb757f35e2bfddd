"""What a task adds to an episode: a private plan, evidence, facts, reports, a way to a claim.

Four methods decide what communication can do, and nothing else does. `facts` is what a view shows
of the claims a node knows; `payload` sends along the shown bearing and age of the written claim,
and no more; `receive` keeps the place that these bins stand for, and the next view shows it in the
same bins; `walk` is one step towards a claim that the law named or holds. Invariant: `look` alone
changes memories from windows, `receive` alone from messages.
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
"""Ages in rounds are shown, and travel, up to this."""


class Plan(NamedTuple):
    """A private movement proposal, and whether it follows a route of the agent's own."""

    move: str
    route: bool


class Report(NamedTuple):
    """What travels with a write: the place of its claim as the writer's view shows it."""

    place: Bearing
    age: int


class Behaviour:
    """The task-specific half of an episode; the defaults suit a task whose claims have no place."""

    goal: ClassVar[str] = ""
    """What the task asks, as every node reads it: no population, sizes or scores."""
    actions: ClassVar[tuple[str, ...]] = ACTION_NAMES
    places: ClassVar[bool] = True
    """Whether claims have places, so that a law can follow one."""
    refresh: int | None = 12
    """Rounds after which a repeated write counts as a refresh; None: evidence is sent once."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def look(self, node: int) -> Plan:
        """Take the present window into private memory and plan the private move."""
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
        """Return what tells two writes of one claim to one receiver apart, or None."""
        return None

    def payload(self, write: Write) -> Report | None:
        """Return what travels with a write: nothing, unless the claim has a place."""
        return None

    def receive(self, write: Write, payload: object) -> Write:
        """Take a delivered write into private memory; point its direction from the reader."""
        return write

    def walk(self, node: int, claim: str) -> str | None:
        """Return one step towards a claim, or None where the view shows no place of it."""
        return None

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject late counterevidence if it is due; Pursuit and Foraging have some."""
        return None

    def standing(self, node: int) -> float | None:
        """Return how far a node has come, for learning from outcomes; None if it has no such."""
        return None

    def report(self, node: int, cell: Cell, age: int = 0) -> Report:
        """Return the bins in which a node's view shows a place."""
        place = bearing(sub(cell, self.scene.memories[node].here))
        return Report(place, min(max(age, 0), MOST_AGE))

    def place_of(self, write: Write, report: Report) -> Cell:
        """Return where a report puts its claim, in the reader's frame.

        Bins count from the writer, who stands in the reader's window.
        """
        scene = self.scene
        writer = sub(scene.cells[write.sender], scene.cells[write.receiver])
        here = scene.memories[write.receiver].here
        return add(add(here, writer), estimate(report.place))


class Landmark(Behaviour):
    """What Flocking and Transport share: one landmark, and one claim that it is known.

    The landmark is the middle of the map or the plugged exit. Invariant: what was heard is kept
    apart from what was found, so the private proposal never depends on it.
    """

    kind = ""
    """Name of the landmark, which is the task's one claim."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.heard: list[Cell | None] = [None] * len(scene.keys)
        """Where every node was told that the landmark is, in its own frame."""

    def found(self, node: int) -> Cell | None:
        """Return the landmark as the node found it, in its own frame, or None."""
        raise NotImplementedError

    def known(self, node: int) -> Cell | None:
        """Return the landmark as found, else as heard."""
        cell = self.found(node)
        return self.heard[node] if cell is None else cell

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Return the landmark if the node found it; nothing can contradict it."""
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
        """Return where the writer's view shows the landmark."""
        cell = self.known(write.sender)
        return None if cell is None else self.report(write.sender, cell)

    def receive(self, write: Write, payload: object) -> Write:
        """Keep the nearest place reported, which has the finest bins; point where this one says."""
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
