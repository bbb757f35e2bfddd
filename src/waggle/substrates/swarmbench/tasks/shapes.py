"""Flocking and Transport: how an agent works on the outline or the box, and what it can tell.

Both have one landmark (`landmark`): the middle of the map, known once the walls are, and the
plugged exit. The moves are pure functions of windows and private memory (`ring`, `haul`); following
the field takes the same move with the landmark as told.
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.core.protocols import Local
from waggle.substrates.swarmbench.agent.compass import MOVE_NAMES, STEP, add, found, walls
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.tasks import haul, ring
from waggle.substrates.swarmbench.tasks.base import Plan
from waggle.substrates.swarmbench.tasks.crate import SHUT, Exit, Plug, stage_now
from waggle.substrates.swarmbench.tasks.landmark import Landmark

Walls = Mapping[str, int]
"""Side -> row or column of the map's wall there."""
_ALL = 4


class Flock(Landmark[Walls]):
    """The behaviour of Flocking."""

    kind = "middle"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.walls: list[dict[str, int]] = [{} for _ in scene.keys]
        """Walls every node has seen, in its own frame."""
        self.met = [0] * len(scene.keys)
        """Agents every node has had in sight, summed over its rounds."""

    def look(self, node: int) -> Plan:
        """Take note of walls and of how many are about; work on the outline."""
        window, memory = self.scene.windows[node], self.scene.memories[node]
        self.walls[node].update(walls(window, memory.here))
        self.met[node] += len(found(window, "A"))
        return Plan(self._move(node, self.walls[node]), False)

    def _move(self, node: int, known: Walls) -> str:
        scene = self.scene
        first = MOVE_NAMES[scene.lasting_draw(node) % len(MOVE_NAMES)]
        memory, window, draw = (
            scene.memories[node],
            scene.windows[node],
            scene.draw(node),
        )
        return ring.propose(known, self.met[node], memory, window, first, draw)

    def found(self, node: int) -> Walls | None:
        """All four walls, once three were seen."""
        full = ring.complete(self.walls[node])
        return full if len(full) == _ALL else None

    def centre(self, mark: Walls) -> Cell:
        """Return the middle of the map."""
        return (mark["UP"] + mark["DOWN"]) // 2, (mark["LEFT"] + mark["RIGHT"]) // 2

    def shifted(self, mark: Walls, offset: Cell) -> Walls:
        """Move rows by the first number and columns by the second."""
        return {side: line + offset[STEP[side][0] == 0] for side, line in mark.items()}

    def follow(self, node: int, local: Local) -> str | None:
        """Work on the outline with the walls as found, else as told."""
        known = self.known(node)
        return None if known is None else self._move(node, known)


class Haul(Landmark[Plug]):
    """The behaviour of Transport."""

    kind = "exit"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.notes = [haul.Notes(scene.lasting_draw(node)) for node in range(len(scene.keys))]

    def look(self, node: int) -> Plan:
        """Leave if the way out is in sight, work on the box if its exit is known, else search."""
        scene, notes = self.scene, self.notes[node]
        memory, window = scene.memories[node], scene.windows[node]
        notes.recall(memory, window)
        out = haul.way_out(window)
        if out is not None:
            return Plan(out, True)
        if not notes.exits:
            return Plan(haul.tour(notes, memory, window), False)
        move = haul.work(notes, memory, window, scene.draw(node))
        back = move in STEP and add(memory.here, STEP[move]) == notes.before
        notes.before = memory.here
        # Two in each other's way would step back and forth for ever: wait now and then instead.
        return Plan("STAY" if back and scene.draw(node) >> 16 & 1 else move, True)

    def found(self, node: int) -> Plug | None:
        """The exit and its box, once no other exit agrees with what was seen."""
        notes = self.notes[node]
        return Plug(notes.exits[0], notes.stage) if len(notes.exits) == 1 else None

    def centre(self, mark: Plug) -> Cell:
        """Return a cell behind the middle of the exit."""
        return mark.exit.cell((2, 2))

    def shifted(self, mark: Plug, offset: Cell) -> Plug:
        """Move the corner; directions stay as they are."""
        corner, along, inward = mark.exit
        return Plug(Exit(add(corner, offset), along, inward), mark.stage)

    def merged(self, old: Plug | None, new: Plug) -> Plug:
        """Return the word in which the box is further out."""
        return new if old is None else max(old, new, key=lambda plug: plug.stage)

    def follow(self, node: int, local: Local) -> str | None:
        """Go to the exit as told and work on its box; the private move where it was found."""
        told = self.told[node]
        if told is None or self.notes[node].exits:
            return None
        memory, window = self.scene.memories[node], self.scene.windows[node]
        notes = haul.Notes(SHUT)
        notes.exits = [told.exit]
        notes.stage = stage_now(told.exit, window, memory.here, told.stage)
        out = haul.way_out(window)
        return out or haul.work(notes, memory, window, self.scene.draw(node))
