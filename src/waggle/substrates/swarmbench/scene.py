"""The grid world as nodes see it: the body of each node, its cell and its window.

Everything is drawn in body order and keyed by body, so relabelling the nodes relabels the episode.
Invariant: windows and memories are refreshed between rounds only, never while views are formed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from waggle.core import seeds
from waggle.substrates.swarmbench.agent.compass import OUTSIDE, SELF, add, sub
from waggle.substrates.swarmbench.agent.memory import Memory
from waggle.substrates.swarmbench.sim.config import Action, Cell
from waggle.substrates.swarmbench.sim.world import GridWorld


class Scene:
    """A running grid world, indexed by nodes instead of bodies."""

    def __init__(self, world: GridWorld, keys: Sequence[int], seed: int) -> None:
        self.world = world
        self.keys = tuple(keys)
        self.node_of = {body: node for node, body in enumerate(self.keys)}
        self.memories = [Memory() for _ in self.keys]
        self._streams = [seeds.derive(seed, "swarmbench", body) for body in self.keys]
        self.half = world.config.view_size // 2
        self.cells: list[Cell] = []
        """The cell of every node."""
        self.windows: list[list[str]] = []
        """The window of every node."""
        self.refresh()

    def draw(self, node: int) -> int:
        """Return 64 bits of the node's own stream for this round."""
        return seeds.mix(self._streams[node], self.world.round)

    def lasting_draw(self, node: int) -> int:
        """Return 64 bits of the node's own stream for the whole episode."""
        return seeds.mix(self._streams[node], 1 << 40)

    def is_active(self, node: int) -> bool:
        """Return whether the node's body is still on the map."""
        return not self.world.escaped[self.keys[node]]

    def neighbours(self, node: int) -> list[int]:
        """Return the nodes within the window's half width, in the order of their cells."""
        world, half = self.world, self.half
        physics = world.physics
        centre = physics.pos[self.keys[node]]
        codes: list[int] = []
        for di in range(-half, half + 1):
            row = centre + di * physics.stride
            codes += physics.cells[row - half : row + half + 1]
        mine = self.keys[node] + 1
        return [self.node_of[code - 1] for code in codes if 0 < code <= world.n and code != mine]

    def to_frame(self, node: int, cell: Cell) -> Cell:
        """Convert a cell of the map to the node's own frame."""
        return add(self.memories[node].here, sub(cell, self.cells[node]))

    def to_map(self, node: int, cell: Cell) -> Cell:
        """Convert a cell of the node's own frame to a cell of the map."""
        return add(self.cells[node], sub(cell, self.memories[node].here))

    def refresh(self) -> None:
        """Update every position, window and memory from the world."""
        world, half = self.world, self.half
        margin = OUTSIDE * (half + 2)
        rows = [margin + row + margin for row in world.grid()]
        blank = [OUTSIDE * (world.config.width + 2 * len(margin))] * len(margin)
        rows = blank + rows + blank
        agents = world.agents
        before = self.cells
        self.cells = [agents[body] for body in self.keys]
        windows = []
        for node, (i, j) in enumerate(self.cells):
            if before:
                self.memories[node].moved(sub(self.cells[node], before[node]))
            top, left = i - half + len(margin), j - half + len(margin)
            window = [row[left : left + 2 * half + 1] for row in rows[top : top + 2 * half + 1]]
            if self.is_active(node):
                middle = window[half]
                window[half] = middle[:half] + SELF + middle[half + 1 :]
                self.memories[node].look(window)
            windows.append(window)
        self.windows = windows

    def look_again(self) -> None:
        """Refresh the windows after a map change between two rounds, in which no agent moves."""
        before = [(memory.clock, memory.blocked) for memory in self.memories]
        self.refresh()
        for memory, (clock, blocked) in zip(self.memories, before, strict=True):
            memory.clock, memory.blocked = clock, blocked

    def play(self, native: Mapping[int, str]) -> None:
        """Play one round of native actions by node and refresh all windows and memories."""
        actions = [int(Action.STAY)] * self.world.n
        for node, name in native.items():
            actions[self.keys[node]] = int(Action[name])
            self.memories[node].last_move = name
        self.world.step(actions)
        self.refresh()
