"""Late counterevidence: move the target far away once enough of the swarm is committed to it.

It enters through native windows only (adapter spec, section 5). Food moves at the first round from
20 on with a quarter of the nodes committed to it, else at the 50th. Commitments to a prey come and
go with it, so it takes half of the nodes, from the 60th round on a quarter, from the 75th nobody:
what is refuted should dominate also where commitments cannot be undone, or the late commitments of
others would pass for recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from waggle.core.protocols import Shock
from waggle.substrates.swarmbench.agent.compass import reach, taxi
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.sim.level import EMPTY, FOOD
from waggle.substrates.swarmbench.sim.pursuit import Pursuit

SEERS = 5
"""Nodes in whose windows a relocated prey must be; chosen on development seeds (lab/LOG.md)."""
Namer = Callable[[str, Cell], str]


class Due(NamedTuple):
    """When the counterevidence comes."""

    kind: str
    """Kind of site the nodes must be committed to."""
    shares: tuple[tuple[int, Fraction], ...]
    """From which round on which share of the nodes must be."""

    def now(self, scene: Scene, round: int, committed: Mapping[int, str]) -> bool:
        """Whether enough nodes hold a claim of the kind."""
        held = sum(claim.startswith(f"{self.kind}:") for claim in committed.values())
        return any(round >= at and held >= share * scene.world.n for at, share in self.shares)


PREY_DUE = Due("prey", ((20, Fraction(1, 2)), (60, Fraction(1, 4)), (75, Fraction(0))))
FOOD_DUE = Due("food", ((20, Fraction(1, 4)), (50, Fraction(0))))


def refuted(committed: Mapping[int, str], kind: str, named: Iterable[str]) -> tuple[str, ...]:
    """Return the claims of a kind that a relocation makes wrong: all held, and those named."""
    held = {claim for claim in committed.values() if claim.startswith(f"{kind}:")}
    return tuple(sorted(held.union(named)))


def relocate_prey(scene: Scene) -> bool:
    """Teleport the prey to the farthest empty cell in sight; ties: lowest row, then column.

    In sight, so that the counterevidence is in native views when it is injected; where too few see
    any empty cell, the farthest of all. Return whether there was a cell to go to.
    """
    world = scene.world
    assert isinstance(world.rules, Pursuit)
    old = world.rules.prey
    inner = [
        (i, j)
        for i in range(1, world.config.height - 1)
        for j in range(1, world.config.width - 1)
        if world.is_empty((i, j))
    ]
    if not inner:
        return False
    seen = [c for c in inner if sum(reach(c, at) <= scene.half for at in scene.cells) >= SEERS]
    world.relocate_prey(min(seen or inner, key=lambda c: (-taxi(c, old), c)))
    return True


def relocate_food(
    scene: Scene, round: int, committed: Mapping[int, str], name: Namer
) -> Shock | None:
    """Move the food to the other corner on its side of the walls, once those cells are empty."""
    world = scene.world
    if not FOOD_DUE.now(scene, round, committed):
        return None
    terrain = world.terrain
    cells = [(i, j) for i, row in enumerate(terrain) for j, s in enumerate(row) if s == FOOD]
    old = min(cells)
    h, w = world.config.height, world.config.width
    # Inner walls that run along rows cross column 2 on line 4 (spec section 4.3).
    along_rows = h <= 8 or terrain[4][2] == "W"
    new = (old[0], w - 2 - old[1]) if along_rows else (h - 2 - old[0], old[1])
    square = [(new[0] + a, new[1] + b) for a in (0, 1) for b in (0, 1)]
    if not all(world.is_empty(cell) for cell in square):
        return None
    rows = [list(row.replace(FOOD, EMPTY)) for row in terrain]
    for i, j in square:
        rows[i][j] = FOOD
    world.relocate_food(["".join(row) for row in rows])
    gone = refuted(committed, "food", [name("food", old)])
    note = "the food was moved to the other corner of its side"
    return Shock(round, gone, (name("food", new),), (), note)
