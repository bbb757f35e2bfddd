"""Flocking and Transport as one landmark: who knows where it is can tell, who was told can follow.

A task has one claim, that its landmark is known (the middle of the map; the plugged exit). What
travels with a write is where its writer takes the landmark to be, re-projected into the reader's
frame at delivery; laws see a compass point and whether the landmark was seen or told. Invariant:
what was told is kept apart from what was found, so the private proposal never depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from waggle.core.protocols import Local, Write
from waggle.core.schema import MAX_BIN, Evidence, Fact
from waggle.substrates.swarmbench.agent.compass import octant, sub
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.tasks.plain import Plain

Mark = TypeVar("Mark")


class Landmark(Plain, Generic[Mark]):
    """What tasks with one landmark share; a `Mark` says where it is in some frame."""

    kind = ""
    """Name of the landmark, which is the task's one claim."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.told: list[Mark | None] = [None] * len(scene.keys)

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
        """Return what remains of two words; must not depend on which came first."""
        return new

    def known(self, node: int) -> Mark | None:
        """Return the landmark as found, else as told."""
        mark = self.found(node)
        return self.told[node] if mark is None else mark

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """The landmark as found; nothing can contradict it."""
        mark = self.found(node)
        if mark is None:
            return ()
        return (Evidence(self.kind, MAX_BIN, MAX_BIN, 0, self._direction(node, mark)),)

    def _direction(self, node: int, mark: Mark) -> str:
        return octant(sub(self.centre(mark), self.scene.memories[node].here))

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """Whether the landmark was seen or told, and where it is."""
        mark = self.known(node)
        if mark is None:
            return {}
        source = "told" if self.found(node) is None else "seen"
        way = self._direction(node, mark)
        return {self.kind: {"kind": self.kind, "source": source, "way": way}}

    def payload(self, write: Write) -> object:
        """Send along where the writer takes the landmark to be, in cells of the map."""
        mark = self.known(write.sender)
        return None if mark is None else self.shifted(mark, self._frame(write.sender))

    def receive(self, write: Write, payload: object) -> Write:
        """Keep what was told in the reader's frame, and point there from the reader's cell."""
        if payload is None:
            return write
        i, j = self._frame(write.receiver)
        mark: Mark = self.shifted(payload, (-i, -j))  # type: ignore[arg-type]
        mark = self.merged(self.told[write.receiver], mark)
        self.told[write.receiver] = mark
        return msgspec.structs.replace(write, direction=self._direction(write.receiver, mark))

    def _frame(self, node: int) -> Cell:
        """Return the offset from the node's own frame to the map."""
        return self.scene.to_map(node, (0, 0))
