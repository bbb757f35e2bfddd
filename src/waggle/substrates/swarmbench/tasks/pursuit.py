"""Pursuit as sites: one moving target, forgotten soon after it was told of.

The claim names the block the prey is in and which prey it is, so a captured or relocated prey is
another claim. A prey that moved within its block is news. One that slipped out of sight is not yet
refuted: only after a refresh period without a newer word does an empty place speak against it.
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.core.protocols import Local, Shock, Write
from waggle.core.schema import MAX_BIN, Json
from waggle.substrates.swarmbench.agent.compass import octant, sub
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.tasks import hunt
from waggle.substrates.swarmbench.tasks.base import Plan
from waggle.substrates.swarmbench.tasks.relocate import PREY_DUE, SEERS, refuted, relocate_prey
from waggle.substrates.swarmbench.tasks.sites import BLOCK, Sites


class PursuitSites(Sites):
    """One moving target; what was told is forgotten after twelve rounds."""

    refresh: int | None = 12
    certain = 1
    memory_span: int | None = 5
    patience = 12
    doubt: int | None = 16
    symbols: Mapping[str, str] = {"prey": "P"}

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._named: set[str] = set()

    def claim(self, kind: str, cell: Cell) -> str:
        """Name the block the prey is in, and which prey it is."""
        captures = int(self.scene.world.score) + self.incarnation
        claim = f"{kind}:{cell[0] // BLOCK},{cell[1] // BLOCK}:{captures}"
        self._named.add(claim)
        return claim

    def plan(self, node: int) -> Plan:
        """Hunt."""
        scene = self.scene
        return hunt.propose(scene.memories[node], scene.windows[node], scene.draw(node))

    def lost(self, memory: Memory, site: Site) -> None:
        """Guess that the prey fled straight on, and follow the trail for a while."""
        if memory.seen.get("prey") == site:
            memory.trail = hunt.guess(memory, site)
        else:
            memory.scent = Site(site.cell, memory.clock, site.claim)

    def observation(self, node: int) -> Mapping[str, Json]:
        """Where a target that was told of but not found was told to be."""
        memory = self.scene.memories[node]
        site = memory.scent
        if site is None or memory.age(site) > hunt.SEARCH:
            return {"missed": None}
        return {"missed": octant(sub(site.cell, memory.here))}

    def follow(self, node: int, local: Local) -> str | None:
        """Step towards what was told; search around a place where it was not found."""
        move = super().follow(node, local)
        memory = self.scene.memories[node]
        site = memory.scent
        if move is not None or site is None or memory.age(site) > hunt.SEARCH:
            return move
        return hunt.search(memory, self.scene.windows[node], site, self.scene.draw(node))

    def wants(self, node: int) -> str:
        """The prey."""
        return "prey"

    def strength(self, age: int) -> int:
        """Full support in sight, one bin less every fourth round out of sight."""
        return max(0, MAX_BIN - (age + 3) // 4)

    def _missing(self, window: list[str], offset: Cell, symbol: str) -> bool:
        return not any(symbol in row for row in window)

    def says(self, write: Write) -> Cell | None:
        """Return where the prey is said to be: a prey that moved is news."""
        site = self._source(write)
        return None if site is None else self.scene.to_map(write.sender, site.cell)

    def walk(self, node: int, site: Site) -> str | None:
        """Walk straight; Pursuit has no inner walls."""
        scene = self.scene
        offset = sub(site.cell, scene.memories[node].here)
        return hunt.approach(scene.windows[node], offset, scene.draw(node))

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Relocate the prey once enough nodes are committed.

        Every claim named so far is refuted. A claim named later is of the relocated prey or of its
        successors, so it rests on what was seen after the relocation; no list can name them all.
        """
        if not PREY_DUE.now(self.scene, round, committed) or not relocate_prey(self.scene):
            return None
        self.incarnation += 1
        note = f"the prey was moved to the farthest empty cell in sight of {SEERS} nodes"
        return Shock(round, refuted(committed, "prey", self._named), (), (), note)
