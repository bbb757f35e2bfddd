"""Foraging: carry food to the nest, along one winding path between inner walls.

Food and nest stay in place, at the two ends of the path. The agent walks to the site it wants
(food when empty-handed, nest when carrying) if it knows the place. If it knows only the other site,
the wanted one lies at the other end of the path; if it knows neither, it follows the path in a
drawn direction. A report of a site is its place, sent once to each contact; the novelty of evidence
shows whether some contact has not received it yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from waggle.core.protocols import Shock
from waggle.core.schema import MAX_BIN, Evidence, Fact, Json
from waggle.substrates.swarmbench.agent.compass import add, chebyshev, find, octant, sign, sub
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.agent.navigate import frontier, step_to, sweep
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import MOVES, Cell
from waggle.substrates.swarmbench.sim.levels import EMPTY, FOOD, NEST
from waggle.substrates.swarmbench.sim.rules import Foraging
from waggle.substrates.swarmbench.tasks import winding
from waggle.substrates.swarmbench.tasks.base import Plan
from waggle.substrates.swarmbench.tasks.sites import ShockRule, Sites
from waggle.substrates.swarmbench.tasks.winding import Lanes

RELOCATION = ShockRule("food", ((20, Fraction(1, 4)), (50, Fraction(0))))
"""Food moves from round 20 on once a quarter of the nodes is committed to it, else in round 50."""
_ONCOMING = {"food": "A", "nest": "a"}
"""Kind of site wanted -> the symbol of agents that come back from it."""
_CROWDED = 7
"""Number of agents in sight at which an agent stays back until the site is in sight."""
_PATIENCE = 1
"""Rounds without a step after which an agent on its way in lets others out."""


class ForagingBehaviour(Sites):
    """Stationary food and nest; evidence is sent once."""

    goal = (
        "Carry food from its source F to the nest N; standing next to them is enough. "
        "A carries food, a does not."
    )
    symbols: Mapping[str, str] = {"food": "F", "nest": "N"}
    accepts_denials = True
    doubt = 8

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.lanes = [Lanes(scene.lasting_draw(k)) for k in range(len(scene.keys))]

    def plan(self, node: int) -> Plan:
        """Plan the move from what the node itself saw."""
        memory = self.scene.memories[node]
        self.lanes[node].note(self.scene.windows[node], memory.here)
        kind = self.wants(node)
        return Plan(self._move(node, memory.seen, kind), kind in memory.seen)

    def step_towards(self, node: int, site: Site) -> str | None:
        """Return one step towards a site, also using what the node itself saw of the other one."""
        return self._move(node, {**self.scene.memories[node].seen, site.kind: site}, site.kind)

    def _move(self, node: int, sites: Mapping[str, Site], kind: str) -> str:
        """Return the move towards one kind of site, given the known sites."""
        memory, lanes, window = (
            self.scene.memories[node],
            self.lanes[node],
            self.scene.windows[node],
        )
        draw = self.scene.draw(node)
        crowd = frozenset(find(window, "Aa"))
        site = sites.get(kind)
        if site is not None and _is_near(memory, lanes, site):
            far = chebyshev(site.cell, memory.here) > len(window) // 2
            if memory.blocked > _PATIENCE or (len(crowd) >= _CROWDED and far):
                return winding.give_way(memory, site, crowd, draw)
            if lanes.axis is not None and any(_ONCOMING[kind] in row for row in window):
                steps = winding.file_in(memory, lanes, site)
                step = winding.take(memory, steps, crowd, 0)
                if step is not None:
                    return step
            step = step_to(memory, site.cell, crowd, draw)
            if step is not None:
                return step
        if lanes.axis is None:
            others = [other for name, other in sites.items() if name != kind]
            steps = winding.find_walls(memory, lanes, others[0] if others else None)
        else:
            side = _side(memory, lanes, kind, sites)
            yields = kind == "food" and any("A" in row for row in window)
            steps = winding.onward(memory, lanes, side, list(sites.values()), yields)
        return winding.take(memory, steps, crowd, draw) or _explore(memory, window, crowd, draw)

    def anchor(self, cell: Cell) -> Cell:
        """Return the top-left cell of the 2x2 site."""
        terrain = self.scene.world.terrain
        symbol = terrain[cell[0]][cell[1]]
        i, j = cell
        return i - (terrain[i - 1][j] == symbol), j - (terrain[i][j - 1] == symbol)

    def carrying(self, node: int) -> bool:
        """Return whether the node carries food."""
        rules = self.scene.world.rules
        assert isinstance(rules, Foraging)
        return rules.carrying[self.scene.keys[node]]

    def wants(self, node: int) -> str:
        """Return the nest when carrying, the food otherwise."""
        return "nest" if self.carrying(node) else "food"

    def standing(self, node: int) -> float:
        """Return the pieces that the node has brought home, plus its progress with the next."""
        rules = self.scene.world.rules
        assert isinstance(rules, Foraging)
        ways, between = _ways(tuple(self.scene.world.terrain))
        left = ways[self.wants(node)].get(self.scene.cells[node], between)
        done = max(0.0, 1 - left / between)
        return rules.brought[self.scene.keys[node]] + (self.carrying(node) + done) / 2

    def observation(self, node: int) -> Mapping[str, Json]:
        """Return whether the node carries food."""
        return {"carrying": self.carrying(node)}

    def _seen_row(self, node: int, site: Site) -> Evidence:
        """Return evidence of a site; it is novel while some contact has not received it."""
        memory = self.scene.memories[node]
        sent = memory.sent_to.get(site.claim, set())
        new = any(contact not in sent for contact in self.scene.neighbours(node))
        direction = octant(sub(site.cell, memory.here))
        return Evidence(site.claim, MAX_BIN if new else 0, MAX_BIN, 0, direction)

    def ports(self, node: int) -> Mapping[int, Mapping[str, Fact]]:
        """Return which contacts are seen to carry food."""
        return {
            contact: {"carries": int(self.carrying(contact))}
            for contact in self.scene.neighbours(node)
        }

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Move the food to the other corner of its lane, once those cells are empty."""
        world = self.scene.world
        if not RELOCATION.is_due(self.scene, round, committed):
            return None
        terrain = world.terrain
        old = min((i, j) for i, row in enumerate(terrain) for j, s in enumerate(row) if s == FOOD)
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
        gone = RELOCATION.refuted(committed, [self.claim("food", old)])
        note = "the food was moved to the other corner of its side"
        return Shock(round, gone, (self.claim("food", new),), (), note)


@lru_cache(64)
def _ways(terrain: tuple[str, ...]) -> tuple[Mapping[str, Mapping[Cell, int]], int]:
    """Return the number of steps from every cell to each site, and from site to site."""
    ways = {"food": _steps(terrain, FOOD), "nest": _steps(terrain, NEST)}
    beside = [cell for cell, steps in ways["food"].items() if steps == 0]
    return ways, max(1, min(ways["nest"].get(cell, 1 << 30) for cell in beside))


def _steps(terrain: tuple[str, ...], symbol: str) -> Mapping[Cell, int]:
    """Return the number of steps from every empty cell to the nearest one beside a symbol."""
    empty = {(i, j) for i, row in enumerate(terrain) for j, s in enumerate(row) if s == EMPTY}
    ring = {
        (i + a, j + b)
        for i, row in enumerate(terrain)
        for j, s in enumerate(row)
        for a, b in MOVES
        if s == symbol
    } & empty
    steps: dict[Cell, int] = {}
    count = 0
    while ring:
        steps |= dict.fromkeys(ring, count)
        ring = {add(cell, move) for cell in ring for move in MOVES} & empty - steps.keys()
        count += 1
    return steps


def _is_near(memory: Memory, lanes: Lanes, site: Site) -> bool:
    """Return whether a site can be reached directly: no wall between, or no inner wall known."""
    axis = lanes.axis
    if axis is None:
        return True
    here, there = memory.here[axis], site.cell[axis]
    if lanes.between(here, there):
        return False
    line = lanes.line(here, 1 if there > here else -1)
    return abs(there - here) <= 2 or line is not None


def _side(memory: Memory, lanes: Lanes, kind: str, sites: Mapping[str, Site]) -> int | None:
    """Return the side across the walls to head for, or None."""
    if kind in sites:
        return 1 if sites[kind].cell[lanes.along] > memory.here[lanes.along] else -1
    for site in sites.values():
        return winding.away_from(lanes, memory.here, site)
    return lanes.crossed


def _explore(memory: Memory, window: list[str], crowd: frozenset[Cell], draw: int) -> str:
    """Return a step to the nearest unseen cell; ties prefer the current heading."""
    goal = frontier(memory, draw)
    if goal is not None:
        step = step_to(memory, goal, crowd, draw)
        if step is not None:
            i, j = sub(goal, memory.here)
            memory.heading = sign(i), sign(j)
            return step
    return sweep(memory, window, draw)
