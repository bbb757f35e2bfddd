"""Push physics: the bodies that move in one directional pass (spec section 6), in closed form.

With `s = force - mass` per body and prefix sums `P` over a queue from front to rear, the part that
moves is the longest front part whose every sum taken from its rear is >= 0: it ends at the last
maximum of `P` (counting the empty part, `P = 0`). The box joins lanes: it moves iff the maxima of
the queues behind it cover its mass and what the queues in front lack.

Invariant: `cells[c]` holds 0 for a free cell, `body + 1` for an agent or the pushable prey on the
map, or one of the negative codes; agents that left the map, even in an earlier pass of the same
round, are not in `cells`: they neither move nor block.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.substrates.swarmbench.sim.config import MOVES, Cell
from waggle.substrates.swarmbench.sim.levels import Box

FREE, FIXED, BOXED = 0, -1, -2
PAD = 8
"""Free cells kept around the map; the box reaches at most five cells beyond it."""
PUSH, IDLE, BRACE = 1, -1, -3
"""Force minus mass of a pusher, an idle agent and one that pushes the opposite way."""


class Physics:
    """Occupied cells of a padded flat map and the push rule on them."""

    def __init__(
        self, height: int, width: int, walls: Sequence[Cell], agents: Sequence[Cell]
    ) -> None:
        self.height, self.width = height, width
        self.stride = width + 2 * PAD
        size = self.stride * (height + 2 * PAD)
        self.cells = [FREE] * size
        self.inside = bytearray(size)
        for i in range(height):
            start = self.index((i, 0))
            self.inside[start : start + width] = b"\x01" * width
        self.steps = [di * self.stride + dj for di, dj in MOVES]
        for cell in walls:
            self.cells[self.index(cell)] = FIXED
        self.pos = [self.index(cell) for cell in agents]
        self.rest = [IDLE] * len(agents)
        self.box: list[int] = []
        self.box_mass = 0
        for body, c in enumerate(self.pos):
            if self.inside[c]:
                self.cells[c] = body + 1

    def index(self, cell: Cell) -> int:
        """Return the flat index of a cell on or near the map."""
        return (cell[0] + PAD) * self.stride + cell[1] + PAD

    def cell(self, index: int) -> Cell:
        """Return the (row, column) of a flat index."""
        i, j = divmod(index, self.stride)
        return i - PAD, j - PAD

    def add_body(self, cell: Cell, mass: int) -> int:
        """Add a pushable body without force and return its number."""
        body = len(self.pos)
        self.pos.append(self.index(cell))
        self.rest.append(-mass)
        self.cells[self.pos[body]] = body + 1
        return body

    def add_box(self, box: Box) -> None:
        """Add the box; its cells may lie partly outside the map."""
        top = self.index(box.pos)
        self.box = [top + di * self.stride + dj for di, dj in box.cells]
        self.box_mass = box.mass
        if any(self.inside[c] for c in self.box):
            for c in self.box:
                self.cells[c] = BOXED

    def push(self, direction: int, pushers: Sequence[int], bracers: Sequence[int]) -> None:
        """Run one pass: move the unique largest admissible set one cell in the direction."""
        strength = self.rest.copy()
        for body in bracers:
            strength[body] = BRACE
        for body in pushers:
            strength[body] = PUSH
        cells, pos, step = self.cells, self.pos, self.steps[direction]
        done = bytearray(len(pos))
        if self.box:
            pushers = [body for body in pushers if self.inside[pos[body]]]
            self._push_box(step, pushers, strength, done)
        for body in pushers:
            if done[body]:
                continue
            c = pos[body] + step
            while cells[c] > 0:
                c += step
            if cells[c] == FREE:
                queue, movers, _ = self._queue(c - step, step, strength, done)
                self._shift(queue[:movers], step)

    def _queue(
        self, front: int, step: int, strength: list[int], done: bytearray
    ) -> tuple[list[int], int, int]:
        """Collect the queue that ends at `front`; return it, how many move, and their surplus.

        Bodies already resolved in this pass end the queue: they belong to a queue behind a gap.
        """
        cells = self.cells
        queue: list[int] = []
        total = best = movers = 0
        c = front
        while True:
            body = cells[c] - 1
            if body < 0 or done[body]:
                return queue, movers, best
            done[body] = 1
            queue.append(body)
            total += strength[body]
            if total >= best:
                best, movers = total, len(queue)
            c -= step

    def _shift(self, movers: Sequence[int], step: int) -> None:
        """Move bodies by one cell; `movers` lists them front to rear."""
        cells, pos, inside = self.cells, self.pos, self.inside
        for body in movers:
            c = pos[body]
            cells[c] = FREE
            c += step
            pos[body] = c
            if inside[c]:
                cells[c] = body + 1

    def _push_box(
        self, step: int, pushers: Sequence[int], strength: list[int], done: bytearray
    ) -> None:
        """Resolve the queues behind the box, and the box with everything in front if it moves."""
        cells, pos = self.cells, self.pos
        moving: list[int] = []
        load = 0
        for body in pushers:
            if done[body]:
                continue
            c = pos[body] + step
            while cells[c] > 0:
                c += step
            if cells[c] == BOXED:
                queue, movers, surplus = self._queue(c - step, step, strength, done)
                moving += queue[:movers]
                load += surplus
        if load < self.box_mass:
            return
        ahead, need = self._ahead_of_box(step, strength)
        if need < 0 or load < self.box_mass + need:
            return
        for body in ahead:
            done[body] = 1
        self._shift(ahead, step)
        self._shift_box(step)
        self._shift(moving, step)

    def _ahead_of_box(self, step: int, strength: list[int]) -> tuple[list[int], int]:
        """Return the bodies in front of the box (front to rear per lane) and the force they lack.

        The force is -1 if terrain stops the box or a queue in front of it.
        """
        cells = self.cells
        ahead: list[int] = []
        need = 0
        for c in self.box:
            lane: list[int] = []
            total = lowest = 0
            c += step
            while cells[c] > 0:
                body = cells[c] - 1
                lane.append(body)
                total += strength[body]
                lowest = min(lowest, total)
                c += step
            if cells[c] == FIXED:
                return [], -1
            ahead += reversed(lane)
            need -= lowest
        return ahead, need

    def _shift_box(self, step: int) -> None:
        for c in self.box:
            self.cells[c] = FREE
        self.box = [c + step for c in self.box]
        if any(self.inside[c] for c in self.box):
            for c in self.box:
                self.cells[c] = BOXED
