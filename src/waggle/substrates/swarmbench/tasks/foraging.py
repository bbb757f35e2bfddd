"""Foraging as sites: food and nest stay where they are, at the two ends of one winding way.

What is told of a site is its place: a reader follows the way towards it, or away from it to the
other site. Evidence is told once to each contact, so its novelty says whether some contact has not
been told.
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.core.protocols import Local, Shock
from waggle.core.schema import MAX_BIN, Evidence, Fact, Json
from waggle.substrates.swarmbench.agent.compass import octant, sub
from waggle.substrates.swarmbench.agent.memory import Site
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.sim.rules import Foraging
from waggle.substrates.swarmbench.tasks import forage
from waggle.substrates.swarmbench.tasks.base import Plan
from waggle.substrates.swarmbench.tasks.lanes import Lanes
from waggle.substrates.swarmbench.tasks.relocate import relocate_food
from waggle.substrates.swarmbench.tasks.sites import Sites


class ForagingSites(Sites):
    """Stationary food and nest; evidence is told once."""

    symbols: Mapping[str, str] = {"food": "F", "nest": "N"}
    hearsay = True

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.lanes = [Lanes(scene.lasting_draw(k)) for k in range(len(scene.keys))]

    def plan(self, node: int) -> Plan:
        """Forage by what own eyes saw."""
        memory = self.scene.memories[node]
        self.lanes[node].note(self.scene.windows[node], memory.here)
        kind = self.wants(node)
        return Plan(self._move(node, kind, memory.seen), kind in memory.seen)

    def _move(self, node: int, kind: str, sites: Mapping[str, Site]) -> str:
        scene = self.scene
        memory, window = scene.memories[node], scene.windows[node]
        return forage.move(memory, self.lanes[node], window, kind, sites, scene.draw(node))

    def follow(self, node: int, local: Local) -> str | None:
        """Forage by what was seen and told; a committed claim goes before others of its kind."""
        memory = self.scene.memories[node]
        told: dict[str, list[Site]] = {}
        for site in memory.told.values():
            told.setdefault(site.claim.partition(":")[0], []).append(site)
        sites = dict(memory.seen)
        for kind, rows in told.items():
            held = [site for site in rows if site.claim == local.commitment]
            best = held[0] if held else self._freshest(memory, rows)
            if best is not None:
                sites.setdefault(kind, best)
        return self._move(node, self.wants(node), sites) if sites else None

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
