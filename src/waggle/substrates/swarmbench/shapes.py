"""Flocking and Transport: gather into a loose outline; push the box and leave.

Claims are (kind, direction): `gather:NE` where a flock is in sight, `push:S` where the box is being
pushed. Private rules are pure functions of the window and private memory.
"""

from __future__ import annotations

from waggle.core.protocols import Local
from waggle.substrates.swarmbench import hunt
from waggle.substrates.swarmbench.behaviour import Plan
from waggle.substrates.swarmbench.compass import (
    MOVE_NAMES,
    OFFSET,
    OUTSIDE,
    STEP,
    add,
    at,
    found,
    octant,
    taxi,
)
from waggle.substrates.swarmbench.config import Cell
from waggle.substrates.swarmbench.plain import Plain, direction_of

_POINT = {"UP": "N", "DOWN": "S", "LEFT": "W", "RIGHT": "E"}
_MOVE = {point: move for move, point in _POINT.items()}
PUSH_SPELL = 12
"""Rounds for which an agent keeps pushing one way before it tries another."""


class Flock(Plain):
    """The behaviour of Flocking."""

    def look(self, node: int) -> Plan:
        """Join others when alone, keep two neighbours, leave a clump."""
        scene = self.scene
        memory, window, draw = scene.memories[node], scene.windows[node], scene.draw(node)
        others = found(window, "A")
        if not others:
            return Plan(hunt.sweep(memory, window, draw), False)
        beside = [o for o in others if taxi(o) == 1]
        i, j = sum(o[0] for o in others), sum(o[1] for o in others)
        if len(beside) > 2 or (len(beside) == 2 and self._clumped(beside, others)):
            return Plan(hunt.approach(window, (-i or 1, -j or 1), draw), False)
        if len(beside) == 2:
            return Plan("STAY", False)
        near = min(others, key=lambda o: (taxi(o), o))
        if taxi(near) > 1:
            return Plan(hunt.approach(window, near, draw), False)
        return Plan("STAY", False)

    def _clumped(self, beside: list[Cell], others: list[Cell]) -> bool:
        """Whether two neighbours and a third agent fill a 2x2 square with this one."""
        return add(beside[0], beside[1]) in others

    def shown(self, node: int) -> str | None:
        """Where several others are."""
        others = found(self.scene.windows[node], "A")
        if len(others) < 3:
            return None
        i, j = sum(o[0] for o in others), sum(o[1] for o in others)
        point = octant((i, j))
        return None if point == "HERE" else f"gather:{point}"

    def opposes(self, shown: str, claim: str) -> bool:
        """A flock in one direction refutes one in the opposite direction."""
        a, b = OFFSET[direction_of(shown) or "HERE"], OFFSET[direction_of(claim) or "HERE"]
        return a[0] * b[0] + a[1] * b[1] < 0

    def follow(self, node: int, local: Local) -> str | None:
        """Step the way of the followed claim."""
        claim = self.followed(local)
        point = None if claim is None else direction_of(claim)
        if point is None:
            return None
        scene = self.scene
        far = (5 * OFFSET[point][0], 5 * OFFSET[point][1])
        return hunt.approach(scene.windows[node], far, scene.draw(node))


class Haul(Plain):
    """The behaviour of Transport."""

    def look(self, node: int) -> Plan:
        """Leave if the way out is in sight, push the box if it is, else look for it."""
        scene = self.scene
        memory, window, draw = scene.memories[node], scene.windows[node], scene.draw(node)
        out = self._way_out(window)
        if out is not None:
            return Plan(out, True)
        box = found(window, "B")
        if not box:
            return Plan(hunt.sweep(memory, window, draw), False)
        push = self._push_move(node)
        if push is not None:
            return Plan(push, False)
        near = min(box, key=lambda o: (taxi(o), o))
        if taxi(near) > 1:
            return Plan(hunt.approach(window, near, draw), False)
        return Plan(self._around(window, draw), False)

    def _way_out(self, window: list[str]) -> str | None:
        """Return the first move of a free way inside the window to a cell outside the map."""
        ring: list[tuple[Cell, str]] = [((0, 0), "")]
        reached = {(0, 0)}
        while ring:
            following = []
            for cell, first in ring:
                for name in MOVE_NAMES:
                    nxt = add(cell, STEP[name])
                    symbol = at(window, nxt)
                    if nxt in reached or symbol not in (".", OUTSIDE):
                        continue
                    if symbol == OUTSIDE:
                        return first or name
                    reached.add(nxt)
                    following.append((nxt, first or name))
            ring = following
        return None

    def _push_move(self, node: int) -> str | None:
        """Return the way to push: straight at the box, along the wall first, then the other way."""
        scene = self.scene
        window = scene.windows[node]
        touching = [m for m in MOVE_NAMES if at(window, STEP[m]) == "B" or self._file(window, m)]
        if not touching:
            return None
        spell = scene.memories[node].clock // PUSH_SPELL
        return touching[spell % len(touching)]

    def _file(self, window: list[str], move: str) -> bool:
        """Whether another agent stands between this one and the box, so that it can be helped."""
        step = STEP[move]
        return at(window, step) == "A" and at(window, add(step, step)) == "B"

    def _around(self, window: list[str], draw: int) -> str:
        free = [m for m in MOVE_NAMES if at(window, STEP[m]) == "."]
        return free[draw % len(free)] if free else "STAY"

    def shown(self, node: int) -> str | None:
        """The way this node pushes the box."""
        move = self._push_move(node)
        return None if move is None else f"push:{_POINT[move]}"

    def opposes(self, shown: str, claim: str) -> bool:
        """Pushing one way refutes pushing the opposite way."""
        a, b = OFFSET[direction_of(shown) or "HERE"], OFFSET[direction_of(claim) or "HERE"]
        return a[0] * b[0] + a[1] * b[1] < 0

    def follow(self, node: int, local: Local) -> str | None:
        """Push the followed way where the box or a free cell lies that way."""
        claim = self.followed(local)
        move = None if claim is None else _MOVE.get(direction_of(claim) or "")
        if move is None:
            return None
        return move if at(self.scene.windows[node], STEP[move]) in ".BA" else None
