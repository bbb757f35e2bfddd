"""Pursuit: hunt one moving target whose reported places are soon forgotten.

The private plan closes in on a prey in sight, chases one just lost, and otherwise sweeps the map.
Agents around one prey share its frame, so they agree on their sides without a message. The claim
names the block the prey is in and which prey it is, so the next or a relocated prey gets a new
claim. A prey that moved within its block counts as new content. A prey that slipped out of sight
is not refuted at once: an empty place counts against it only after a refresh period without a
newer report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from waggle.core.protocols import Shock, Write
from waggle.core.schema import MAX_BIN, Evidence
from waggle.substrates.swarmbench.agent.bearing import Bearing
from waggle.substrates.swarmbench.agent.compass import (
    add,
    at,
    chebyshev,
    find,
    manhattan,
    octant,
    sign,
    sub,
)
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.agent.navigate import approach, first_step, sweep
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import MOVES, Cell
from waggle.substrates.swarmbench.sim.rules import Pursuit
from waggle.substrates.swarmbench.tasks.base import Plan
from waggle.substrates.swarmbench.tasks.sites import BLOCK, ShockRule, Sites

CHASE = 6
"""Rounds for which a prey that went out of sight is still chased."""
LEAD = 3
"""Number of cells that a lost prey is assumed to have fled."""
SEERS = 5
"""Nodes in whose windows a relocated prey must be; chosen on development seeds (lab/LOG.md)."""
RELOCATION = ShockRule("prey", ((20, Fraction(1, 2)), (60, Fraction(1, 4)), (75, Fraction(0))))
"""Commitments to a prey come and go with it, so the relocation waits for half of the nodes, from
round 60 on for a quarter, from round 75 on for none. The refuted claims should dominate even where
commitments cannot be undone; otherwise late commitments of others would count as recovery."""


class PursuitBehaviour(Sites):
    """One moving target; reports of it are forgotten after a few rounds."""

    goal = "Surround the prey P on all four sides, again and again. It flees from crowds."
    refresh: int | None = 12
    certain_within = 1
    forget_after: int | None = 5
    refute_after = 12
    refute_until: int | None = 16
    symbols: Mapping[str, str] = {"prey": "P"}

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._named: set[str] = set()

    def claim(self, kind: str, cell: Cell) -> str:
        """Return the claim, which names the block the prey is in and which prey it is."""
        captures = int(self.scene.world.score) + self.incarnation
        claim = f"{kind}:{cell[0] // BLOCK},{cell[1] // BLOCK}:{captures}"
        self._named.add(claim)
        return claim

    def plan(self, node: int) -> Plan:
        """Surround a prey in sight, chase one just lost, else sweep."""
        scene = self.scene
        memory, window, draw = scene.memories[node], scene.windows[node], scene.draw(node)
        prey = find(window, "P")
        if prey:
            return Plan(surround(window, prey[0]), True)
        trail = memory.trail
        if trail is not None and memory.age(trail) <= CHASE:
            offset = sub(trail.cell, memory.here)
            if manhattan(offset) > 1:
                return Plan(approach(window, offset, draw), True)
        return Plan(sweep(memory, window, draw), False)

    def lost(self, memory: Memory, site: Site) -> None:
        """Assume that a prey last seen at the site fled straight on."""
        i, j = sub(site.cell, memory.here)
        fled = add(site.cell, (LEAD * sign(i), LEAD * sign(j)))
        memory.trail = Site(fled, memory.clock, site.claim)

    def step_towards(self, node: int, site: Site) -> str | None:
        """Step straight towards the prey as seen or reported."""
        scene = self.scene
        offset = sub(site.cell, scene.memories[node].here)
        return approach(scene.windows[node], offset, scene.draw(node))

    def wants(self, node: int) -> str:
        """Return the prey."""
        return "prey"

    def _seen_row(self, node: int, site: Site) -> Evidence:
        """Return evidence: full support in sight, one bin less every fourth round out of sight."""
        memory = self.scene.memories[node]
        age, direction = memory.age(site), octant(sub(site.cell, memory.here))
        support = max(0, MAX_BIN - (age + 3) // 4)
        return Evidence(site.claim, max(0, MAX_BIN - age), support, 0, direction)

    def _missing(self, window: list[str], offset: Cell, symbol: str) -> bool:
        return not any(symbol in row for row in window)

    def content(self, write: Write) -> Bearing | None:
        """Return the shown bearing of the prey, so that a prey that moved counts as new."""
        site = self._shown(self.scene.memories[write.sender]).get(write.claim)
        return None if site is None else self.report(write.sender, site.cell).place

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Relocate the prey once enough nodes are committed.

        Every claim named so far is refuted. A claim named later refers to the relocated prey or a
        successor and rests on sightings after the relocation; such claims cannot be listed here.
        """
        if not RELOCATION.is_due(self.scene, round, committed) or not _relocate(self.scene):
            return None
        self.incarnation += 1
        note = f"the prey was moved to the farthest empty cell in sight of {SEERS} nodes"
        return Shock(round, RELOCATION.refuted(committed, self._named), (), (), note)


def surround(window: Sequence[str], prey: Cell) -> str:
    """Step towards the side of the prey assigned to this agent; stay once on a side."""
    sides = [add(prey, move) for move in MOVES]
    if (0, 0) in sides:
        return "STAY"
    hunters = [(0, 0), *find(window, "Aa")]
    open_sides = [side for side in sides if at(window, side) in ".?"]
    waiting = [hunter for hunter in hunters if hunter not in sides]
    target = _my_side(prey, open_sides, waiting)
    if target is None:
        target = min(sides, key=lambda side: (manhattan(side), sub(side, prey)))
    most = len(window) // 2 + 1

    def is_free(cell: Cell) -> bool:
        return chebyshev(cell) <= most and at(window, cell) in ".?"

    return first_step((0, 0), is_free, lambda cell: cell == target) or "STAY"


def _my_side(prey: Cell, sides: list[Cell], hunters: list[Cell]) -> Cell | None:
    """Return this agent's side, or None: pairs match nearest first, ties in the prey's frame."""
    pairs = sorted(
        (manhattan(side, hunter), sub(side, prey), sub(hunter, prey))
        for side in sides
        for hunter in hunters
    )
    me = sub((0, 0), prey)
    taken: set[Cell] = set()
    placed: set[Cell] = set()
    for _, side, hunter in pairs:
        if side in taken or hunter in placed:
            continue
        if hunter == me:
            return add(side, prey)
        taken.add(side)
        placed.add(hunter)
    return None


def _relocate(scene: Scene) -> bool:
    """Teleport the prey to the farthest empty cell in sight; ties: lowest row, then column.

    The cell must be in sight so that native views show the counterevidence when it is injected; if
    too few nodes see any empty cell, take the farthest of all. Return whether there was a cell.
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
    near = {c: sum(chebyshev(c, other) <= scene.half for other in scene.cells) for c in inner}
    seen = [c for c in inner if near[c] >= SEERS]
    world.relocate_prey(min(seen or inner, key=lambda c: (-manhattan(c, old), c)))
    return True
