"""Foraging as sites: food and nest stay where they are, and the way to them matters.

What is told of a site is the writer's way there; evidence is told once to each contact, so its
novelty says whether some contact has not been told.
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.core.protocols import Shock
from waggle.core.schema import MAX_BIN, Evidence, Fact, Json
from waggle.substrates.swarmbench import forage
from waggle.substrates.swarmbench.behaviour import Plan
from waggle.substrates.swarmbench.compass import found, octant, sub
from waggle.substrates.swarmbench.config import Cell
from waggle.substrates.swarmbench.memory import Memory, Site
from waggle.substrates.swarmbench.navigate import route_to, step_along, step_to
from waggle.substrates.swarmbench.relocate import relocate_food
from waggle.substrates.swarmbench.sites import Sites
from waggle.substrates.swarmbench.tasks import Foraging


class ForagingSites(Sites):
    """Stationary food and nest; evidence is told once."""

    symbols: Mapping[str, str] = {"food": "F", "nest": "N"}
    hearsay = True

    def plan(self, node: int) -> Plan:
        """Forage."""
        scene = self.scene
        memory, window = scene.memories[node], scene.windows[node]
        return forage.propose(memory, window, self.carrying(node), scene.draw(node))

    def anchor(self, cell: Cell) -> Cell:
        """Return the top-left cell of the 2x2 site."""
        terrain = self.scene.world.terrain
        symbol = terrain[cell[0]][cell[1]]
        i, j = cell
        return i - (terrain[i - 1][j] == symbol), j - (terrain[i][j - 1] == symbol)

    def carrying(self, node: int) -> bool:
        """Whether the node carries food."""
        rules = self.scene.world.rules
        assert isinstance(rules, Foraging)
        return rules.carrying[self.scene.keys[node]]

    def wants(self, node: int) -> str:
        """Nest when carrying, food otherwise."""
        return forage.wanted(self.carrying(node))

    def observation(self, node: int) -> Mapping[str, Json]:
        """Whether the node carries food."""
        return {"carrying": self.carrying(node)}

    def walk(self, node: int, site: Site) -> str | None:
        """Walk along the told way, else over the private map with unknown cells taken for free."""
        scene = self.scene
        memory, draw = scene.memories[node], scene.draw(node)
        crowd = frozenset(found(scene.windows[node], "Aa"))
        route = memory.routes.get(site.claim, [])
        if route and memory.still < 3 and not memory.solid.intersection(route[:-1]):
            move = step_along(memory, route, crowd, draw)
            if move is not None:
                return move
        return step_to(memory, site.cell, crowd, draw)

    def route(self, memory: Memory, site: Site) -> list[Cell]:
        """Tell the way as the writer knows it; one that was told passes it on."""
        own = memory.seen.get(site.claim.partition(":")[0])
        if own is None or own.claim != site.claim:
            return [memory.here, *memory.routes.get(site.claim, [])][1:]
        return route_to(memory, site.cell)

    def _seen_row(self, node: int, site: Site) -> Evidence:
        """A site that stays put is news to contacts that were not told of it."""
        memory = self.scene.memories[node]
        told = memory.passed.get(site.claim, set())
        new = any(contact not in told for contact in self.scene.neighbours(node))
        direction = octant(sub(site.cell, memory.here))
        return Evidence(site.claim, MAX_BIN if new else 0, MAX_BIN, 0, direction)

    def ports(self, node: int) -> Mapping[int, Mapping[str, Fact]]:
        """Which contacts are seen to carry food."""
        return {
            contact: {"carries": int(self.carrying(contact))}
            for contact in self.scene.neighbours(node)
        }

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Move the food to the other corner of its side once a quarter is committed to it."""
        return relocate_food(self.scene, round, committed, self.claim)
