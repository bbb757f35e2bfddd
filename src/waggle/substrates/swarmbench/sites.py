"""Pursuit and Foraging: evidence is a site, a claim is (kind, block of the map, incarnation).

Two observers of one target share a claim and a relocated target is another claim. What travels
with a write is where its writer takes the target to be, so that it can be re-projected into the
reader's frame at delivery; laws see compass points and ages only. A claim is refuted by own eyes:
the place it names is in the window without the target, or the target is in sight elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from waggle.core.protocols import Local, Shock, Write
from waggle.core.schema import MAX_BIN, Evidence, Fact, Json
from waggle.substrates.swarmbench import forage, hunt
from waggle.substrates.swarmbench.behaviour import Plan
from waggle.substrates.swarmbench.compass import at, found, octant, reach, sub
from waggle.substrates.swarmbench.config import Cell
from waggle.substrates.swarmbench.memory import Memory, Site
from waggle.substrates.swarmbench.navigate import step_to
from waggle.substrates.swarmbench.relocate import relocate_food, relocate_prey
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.tasks import Foraging

BLOCK = 6
"""Side of the map blocks that tell claims apart."""
_SHOWN = 8
"""Claims whose facts a view shows at most."""


class Cue(NamedTuple):
    """Where a writer takes the target to be (a cell of the map), and when it was last seen."""

    cell: Cell | None
    round: int


class Sites:
    """What Pursuit and Foraging share."""

    refresh: int | None = None
    symbols: Mapping[str, str] = {}
    """Kind of site -> its symbol."""
    memory_span: int | None = None
    """Rounds after which a told site is forgotten; None: never."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.incarnation = 0

    def claim(self, kind: str, cell: Cell) -> str:
        """Name the claim that a kind of site is in a cell's block of the map."""
        return f"{kind}:{cell[0] // BLOCK},{cell[1] // BLOCK}:{self.incarnation}"

    def look(self, node: int) -> Plan:
        """Note sites in sight, forget what own eyes refute, plan."""
        memory, window = self.scene.memories[node], self.scene.windows[node]
        for kind, symbol in self.symbols.items():
            seen = found(window, symbol)
            if seen:
                offset = min(seen, key=lambda o: (abs(o[0]) + abs(o[1]), o))
                cell = (memory.here[0] + offset[0], memory.here[1] + offset[1])
                claim = self.claim(kind, self.anchor(self.scene.to_map(node, cell)))
                memory.seen[kind] = Site(cell, memory.clock, claim)
                memory.claims_gone.pop(claim, None)
        self._forget_refuted(memory, window)
        return self.plan(node)

    def anchor(self, cell: Cell) -> Cell:
        """Return the cell of the map that names a target seen at `cell`."""
        return cell

    def _forget_refuted(self, memory: Memory, window: list[str]) -> None:
        half = len(window) // 2
        sites = [*memory.seen.values(), *memory.told.values()]
        for site in sites:
            kind = site.claim.partition(":")[0]
            own = memory.seen.get(kind)
            elsewhere = own is not None and own.round == memory.clock and own.claim != site.claim
            offset = sub(site.cell, memory.here)
            missing = reach(offset) <= half and self._missing(window, offset, self.symbols[kind])
            if elsewhere or missing:
                memory.claims_gone[site.claim] = memory.clock
        for claim in [c for c, s in memory.told.items() if self._is_stale(memory, s)]:
            del memory.told[claim]
        for kind in [k for k, s in memory.seen.items() if s.claim in memory.claims_gone]:
            del memory.seen[kind]

    def _missing(self, window: list[str], offset: Cell, symbol: str) -> bool:
        return at(window, offset) != symbol

    def _is_stale(self, memory: Memory, site: Site) -> bool:
        old = self.memory_span is not None and memory.age(site) > self.memory_span
        return old or memory.claims_gone.get(site.claim, -1) >= site.round

    def plan(self, node: int) -> Plan:
        """Return the private move."""
        raise NotImplementedError

    def wants(self, node: int) -> str:
        """Return the kind of site the node needs now."""
        raise NotImplementedError

    def observation(self, node: int) -> Mapping[str, Json]:
        """Nothing beyond the window."""
        return {}

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Sites seen with own eyes, and verified conflict against claims that reached the node."""
        memory = self.scene.memories[node]
        rows = [self._seen_row(memory, site) for site in memory.seen.values()]
        rows = [row for row in rows if row.support > 0]
        for claim in self._incident(local):
            gone = memory.claims_gone.get(claim)
            if gone is not None and memory.clock - gone <= self._conflict_span():
                novelty = max(0, MAX_BIN - (memory.clock - gone))
                rows.append(Evidence(claim, novelty, 0, MAX_BIN))
        return tuple(rows)

    def _conflict_span(self) -> int:
        return self.memory_span if self.memory_span is not None else 1 << 30

    def _seen_row(self, memory: Memory, site: Site) -> Evidence:
        age = memory.age(site)
        direction = octant(sub(site.cell, memory.here))
        return Evidence(site.claim, max(0, MAX_BIN - age), self.strength(age), 0, direction)

    def strength(self, age: int) -> int:
        """Return how well a site seen some rounds ago is supported."""
        return MAX_BIN

    def _incident(self, local: Local) -> list[str]:
        claims = dict.fromkeys(trace.claim for trace in local.traces)
        if local.commitment is not None:
            claims[local.commitment] = None
        return list(claims)

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """Kind, compass point from here and age of the claims the node knows."""
        memory = self.scene.memories[node]
        sites = sorted(memory.told.values(), key=lambda s: (-s.round, s.cell))[:_SHOWN]
        rows: dict[str, dict[str, Fact]] = {}
        for source, known in (("told", sites), ("seen", list(memory.seen.values()))):
            for site in known:
                rows[site.claim] = {
                    "kind": site.claim.partition(":")[0],
                    "source": source,
                    "way": octant(sub(site.cell, memory.here)),
                    "age": min(MAX_BIN, (memory.age(site) + 2) // 3),
                    "passed": min(MAX_BIN, len(memory.passed.get(site.claim, ()))),
                }
        for claim in self._incident(local):
            rows.setdefault(claim, {"kind": claim.partition(":")[0]})
        return rows

    def fetch(self, node: int) -> str | None:
        """Return the move that looks for others to tell; only hunters go and fetch."""
        return None

    def says(self, write: Write) -> Cell | None:
        """Return the place a write names; None where a claim has one place only."""
        return None

    def payload(self, write: Write) -> Cue:
        """Send along where the target was and when it was seen; a challenge says when it was not."""
        memory = self.scene.memories[write.sender]
        memory.passed.setdefault(write.claim, set()).add(write.receiver)
        if write.conflict:
            return Cue(None, memory.claims_gone.get(write.claim, memory.clock))
        site = self._source(write)
        if site is None:
            return Cue(None, memory.clock)
        return Cue(self.scene.to_map(write.sender, site.cell), site.round)

    def _source(self, write: Write) -> Site | None:
        """Return the site a write is about, as its writer knows it: seen, else told."""
        memory = self.scene.memories[write.sender]
        own = [site for site in memory.seen.values() if site.claim == write.claim]
        return own[0] if own else memory.told.get(write.claim)

    def receive(self, write: Write, payload: object) -> Write:
        """Remember a told site unless own eyes know better, and re-project its direction."""
        cue = payload if isinstance(payload, Cue) else Cue(None, 0)
        memory = self.scene.memories[write.receiver]
        if write.conflict:
            told = memory.told.get(write.claim)
            if told is not None and told.round < cue.round:
                del memory.told[write.claim]
            return write
        if cue.cell is None:
            return write
        cell = self.scene.to_frame(write.receiver, cue.cell)
        known = memory.told.get(write.claim)
        if known is None or known.round < cue.round:
            site = Site(cell, cue.round, write.claim)
            if not self._is_stale(memory, site):
                memory.told[write.claim] = site
        return msgspec.structs.replace(write, direction=octant(sub(cell, memory.here)))

    def follow(self, node: int, local: Local) -> str | None:
        """Step towards the committed site if it is wanted, else towards the best told one."""
        memory, kind = self.scene.memories[node], self.wants(node)
        told = [s for s in memory.told.values() if s.claim.partition(":")[0] == kind]
        if kind in memory.seen:
            told.append(memory.seen[kind])
        held = [s for s in told if s.claim == local.commitment]
        site = held[0] if held else self._freshest(memory, told)
        return None if site is None else self.walk(node, site.cell)

    def _freshest(self, memory: Memory, sites: Iterable[Site]) -> Site | None:
        return min(
            sites, key=lambda s: (-s.round, reach(s.cell, memory.here), s.cell), default=None
        )

    def walk(self, node: int, cell: Cell) -> str | None:
        """Return the move towards a cell of the node's frame."""
        raise NotImplementedError

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject nothing."""
        return None


class PursuitSites(Sites):
    """One moving target; what was told is forgotten after twelve rounds."""

    refresh = 12
    memory_span = 24
    symbols: Mapping[str, str] = {"prey": "P"}

    def claim(self, kind: str, cell: Cell) -> str:
        """Name the block the prey is in, and which prey it is."""
        captures = int(self.scene.world.score) + self.incarnation
        return f"{kind}:{cell[0] // BLOCK},{cell[1] // BLOCK}:{captures}"

    def plan(self, node: int) -> Plan:
        """Hunt."""
        scene = self.scene
        hunt.notice(scene.memories[node], scene.windows[node])
        return hunt.propose(scene.memories[node], scene.windows[node], scene.draw(node))

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

    def fetch(self, node: int) -> str | None:
        """Leave the prey and look for others to tell."""
        scene = self.scene
        return hunt.fetch(scene.memories[node], scene.windows[node], scene.draw(node))

    def walk(self, node: int, cell: Cell) -> str | None:
        """Walk straight; Pursuit has no inner walls."""
        scene = self.scene
        offset = sub(cell, scene.memories[node].here)
        return hunt.approach(scene.windows[node], offset, scene.draw(node))

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Relocate the prey far away once a quarter of the nodes is committed."""
        shock = relocate_prey(self.scene, round, committed, self.claim)
        if shock is not None:
            self.incarnation += 1
            cell = self.scene.world.rules.prey  # type: ignore[attr-defined]
            shock = msgspec.structs.replace(shock, new_claims=(self.claim("prey", cell),))
        return shock


class ForagingSites(Sites):
    """Stationary food and nest; evidence is told once."""

    symbols: Mapping[str, str] = {"food": "F", "nest": "N"}

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

    def walk(self, node: int, cell: Cell) -> str | None:
        """Walk over the private map, unknown cells taken for free."""
        scene = self.scene
        crowd = frozenset(found(scene.windows[node], "Aa"))
        return step_to(scene.memories[node], cell, crowd, scene.draw(node))

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Move the food to the other corner of its side once a quarter is committed to it."""
        return relocate_food(self.scene, round, committed, self.claim)
