"""Late counterevidence: move the target far away once a quarter of the swarm is committed to it.

It enters through native windows only (adapter spec, section 5). The round is the first from 20 on
with enough commitment, else the 50th.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from waggle.core.protocols import Shock
from waggle.substrates.swarmbench.compass import taxi
from waggle.substrates.swarmbench.config import Cell
from waggle.substrates.swarmbench.level import EMPTY, FOOD
from waggle.substrates.swarmbench.pursuit import Pursuit
from waggle.substrates.swarmbench.scene import Scene

EARLIEST, LATEST = 20, 50
Namer = Callable[[str, Cell], str]


def is_due(scene: Scene, round: int, committed: Mapping[int, str], kind: str) -> bool:
    """Whether enough nodes hold a claim of this kind, or the latest round has come."""
    held = sum(claim.startswith(f"{kind}:") for claim in committed.values())
    return round >= LATEST or (round >= EARLIEST and 4 * held >= scene.world.n)


def refuted(committed: Mapping[int, str], kind: str, present: str) -> tuple[str, ...]:
    """Return the claims of a kind that a relocation makes wrong: all held, and the present."""
    held = {claim for claim in committed.values() if claim.startswith(f"{kind}:")}
    return tuple(sorted(held | {present}))


def relocate_prey(
    scene: Scene, round: int, committed: Mapping[int, str], name: Namer
) -> Shock | None:
    """Teleport the prey to the farthest empty cell; ties: lowest row, then column."""
    world = scene.world
    if not is_due(scene, round, committed, "prey"):
        return None
    assert isinstance(world.rules, Pursuit)
    old = world.rules.prey
    inner = [
        (i, j)
        for i in range(1, world.config.height - 1)
        for j in range(1, world.config.width - 1)
        if world.is_empty((i, j))
    ]
    if not inner:
        return None
    cell = min(inner, key=lambda c: (-taxi(c, old), c))
    gone = refuted(committed, "prey", name("prey", old))
    world.relocate_prey(cell)
    return Shock(round, gone, (), (), "the prey was moved to the farthest empty cell")


def relocate_food(
    scene: Scene, round: int, committed: Mapping[int, str], name: Namer
) -> Shock | None:
    """Move the food to the other corner on its side of the walls, once those cells are empty."""
    world = scene.world
    if not is_due(scene, round, committed, "food"):
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
    gone = refuted(committed, "food", name("food", old))
    note = "the food was moved to the other corner of its side"
    return Shock(round, gone, (name("food", new),), (), note)
