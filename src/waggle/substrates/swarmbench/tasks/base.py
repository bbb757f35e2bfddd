"""What a task adds to an episode: a private plan, evidence, facts, messages, a way to follow.

Three methods decide what communication can do, and nothing else does: `payload` is what travels
with a write, `receive` is what a delivery changes, `follow` is the move that the intent FIELD
realises. Invariant: `look` alone changes memories from windows, `receive` alone from messages.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from waggle.core.protocols import Local, Shock, Write
from waggle.core.schema import MAX_BIN, Evidence, Fact, Json
from waggle.substrates.swarmbench.agent.compass import octant, sub
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import ACTION_NAMES, Cell

Mark = TypeVar("Mark")


class Plan(NamedTuple):
    """A private movement proposal, and whether it follows a route of the agent's own."""

    move: str
    route: bool


class Behaviour:
    """The task-specific half of an episode; the defaults suit a task with one lasting claim."""

    goal: ClassVar[str] = ""
    """What the task asks, as every node reads it: no population, sizes or scores."""
    actions: ClassVar[tuple[str, ...]] = ACTION_NAMES
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

    def payload(self, write: Write) -> object:
        """Return what travels with a write."""
        raise NotImplementedError

    def receive(self, write: Write, payload: object) -> Write:
        """Take a delivered write into private memory; point its direction from the reader."""
        raise NotImplementedError

    def follow(self, node: int, local: Local) -> str | None:
        """Return the native move that follows the field or the commitment, or None."""
        raise NotImplementedError

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject late counterevidence if it is due; Pursuit and Foraging have some."""
        return None


class Landmark(Behaviour, Generic[Mark]):
    """What Flocking and Transport share: one landmark, and one claim that it is known.

    The landmark is the middle of the map or the plugged exit; a `Mark` says where it is in some
    frame. The payload is where the writer believes the landmark to be. Laws see a compass point and
    whether the landmark was seen or reported. Invariant: what was heard is kept apart from what was
    found, so the private proposal never depends on it.
    """

    kind = ""
    """Name of the landmark, which is the task's one claim."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.heard: list[Mark | None] = [None] * len(scene.keys)

    def found(self, node: int) -> Mark | None:
        """Return the landmark as the node found it, in its own frame, or None."""
        raise NotImplementedError

    def centre(self, mark: Mark) -> Cell:
        """Return the cell to which a direction points."""
        raise NotImplementedError

    def shifted(self, mark: Mark, offset: Cell) -> Mark:
        """Return the same landmark in a frame shifted by an offset."""
        raise NotImplementedError

    def merged(self, old: Mark | None, new: Mark) -> Mark:
        """Combine two reports; the result must not depend on which came first."""
        return new

    def known(self, node: int) -> Mark | None:
        """Return the landmark as found, else as heard."""
        mark = self.found(node)
        return self.heard[node] if mark is None else mark

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Return the landmark if the node found it; nothing can contradict it."""
        mark = self.found(node)
        if mark is None:
            return ()
        return (Evidence(self.kind, MAX_BIN, MAX_BIN, 0, self._direction(node, mark)),)

    def _direction(self, node: int, mark: Mark) -> str:
        return octant(sub(self.centre(mark), self.scene.memories[node].here))

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """Return whether the landmark was seen or reported, and where it is."""
        mark = self.known(node)
        if mark is None:
            return {}
        source = "told" if self.found(node) is None else "seen"
        way = self._direction(node, mark)
        return {self.kind: {"kind": self.kind, "source": source, "way": way}}

    def payload(self, write: Write) -> object:
        """Return where the writer believes the landmark to be, in cells of the map."""
        mark = self.known(write.sender)
        return None if mark is None else self.shifted(mark, self._frame(write.sender))

    def receive(self, write: Write, payload: object) -> Write:
        """Keep the report in the reader's frame, and point there from the reader's cell."""
        if payload is None:
            return write
        i, j = self._frame(write.receiver)
        mark: Mark = self.shifted(payload, (-i, -j))  # type: ignore[arg-type]
        mark = self.merged(self.heard[write.receiver], mark)
        self.heard[write.receiver] = mark
        return msgspec.structs.replace(write, direction=self._direction(write.receiver, mark))

    def _frame(self, node: int) -> Cell:
        """Return the offset from the node's own frame to the map."""
        return self.scene.to_map(node, (0, 0))
