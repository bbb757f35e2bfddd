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
from waggle.substrates.swarmbench.navigate import route_to, step_along, step_to, walked
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
    route: tuple[Cell, ...] = ()
    """Turning points of the writer's way there, where walls make the way matter."""


class Sites:
    """What Pursuit and Foraging share."""

    refresh: int | None = None
    symbols: Mapping[str, str] = {}
    """Kind of site -> its symbol."""
    certain = 2
    """How near a told place must be before its emptiness refutes the claim."""
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
                for told in [c for c in memory.told if c.startswith(f"{kind}:")]:
                    if told != claim:
                        memory.claims_gone[told] = memory.clock
                    del memory.told[told]
        self._forget_refuted(memory, window)
        return self.plan(node)

    def anchor(self, cell: Cell) -> Cell:
        """Return the cell of the map that names a target seen at `cell`."""
        return cell

    def _forget_refuted(self, memory: Memory, window: list[str]) -> None:
        half = len(window) // 2
        reaches = [(site, half) for site in memory.seen.values()]
        reaches += [(site, min(half, self.certain)) for site in memory.told.values()]
        for site, certain in reaches:
            kind = site.claim.partition(":")[0]
            offset = sub(site.cell, memory.here)
            if reach(offset) <= certain and self._missing(window, offset, self.symbols[kind]):
                memory.claims_gone[site.claim] = memory.clock
                self.lost(memory, site)
                memory.told.pop(site.claim, None)
        for claim in [c for c, s in memory.told.items() if self._is_stale(memory, s)]:
            del memory.told[claim]
        for kind in [k for k, s in memory.seen.items() if s.claim in memory.claims_gone]:
            del memory.seen[kind]

    def _missing(self, window: list[str], offset: Cell, symbol: str) -> bool:
        return at(window, offset) != symbol

    def lost(self, memory: Memory, site: Site) -> None:
        """Take note that a target is no longer where it was seen or told to be."""

    def _is_stale(self, memory: Memory, site: Site) -> bool:
        """Whether a told site is too old, or own eyes missed it after it was seen.

        What was seen in the same round as the miss was seen elsewhere, so it is news.
        """
        old = self.memory_span is not None and memory.age(site) > self.memory_span
        return old or memory.claims_gone.get(site.claim, -1) > site.round + 1

    def plan(self, node: int) -> Plan:
        """Return the private move."""
        raise NotImplementedError

    def wants(self, node: int) -> str:
        """Return the kind of site the node needs now."""
        raise NotImplementedError

    def observation(self, node: int) -> Mapping[str, Json]:
        """Nothing beyond the window."""
        return {}

    def ports(self, node: int) -> Mapping[int, Mapping[str, Fact]]:
        """Nothing about contacts."""
        return {}

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Sites seen with own eyes, and verified conflict against claims that reached the node."""
        memory = self.scene.memories[node]
        rows = [self._seen_row(node, site) for site in memory.seen.values()]
        rows = [row for row in rows if row.support > 0]
        for claim in self._incident(local):
            gone = memory.claims_gone.get(claim)
            if gone is not None and memory.clock - gone <= self._conflict_span():
                novelty = max(0, MAX_BIN - (memory.clock - gone))
                rows.append(Evidence(claim, novelty, 0, MAX_BIN))
        return tuple(rows)

    def _conflict_span(self) -> int:
        return self.memory_span if self.memory_span is not None else 1 << 30

    def _seen_row(self, node: int, site: Site) -> Evidence:
        memory = self.scene.memories[node]
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
                }
        for claim in self._incident(local):
            rows.setdefault(claim, {"kind": claim.partition(":")[0]})
        return rows

    def says(self, write: Write) -> Cell | None:
        """Return the place a write names; None where a claim has one place only."""
        return None

    def payload(self, write: Write) -> Cue:
        """Send along where the target was and when it was seen, or when it was missed."""
        memory = self.scene.memories[write.sender]
        if write.conflict:
            return Cue(None, memory.claims_gone.get(write.claim, memory.clock))
        site = self._source(write)
        if site is None:
            return Cue(None, memory.clock)
        memory.passed.setdefault(write.claim, set()).add(write.receiver)
        route = tuple(self.scene.to_map(write.sender, c) for c in self.route(memory, site))
        return Cue(self.scene.to_map(write.sender, site.cell), site.round, route)

    def route(self, memory: Memory, site: Site) -> list[Cell]:
        """Return the turning points of the way to a site; empty where the way is open."""
        return []

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
                way = [self.scene.to_frame(write.receiver, corner) for corner in cue.route]
                memory.routes[write.claim] = walked(way)
        return msgspec.structs.replace(write, direction=octant(sub(cell, memory.here)))

    def follow(self, node: int, local: Local) -> str | None:
        """Step towards the committed site if it is wanted, else towards the best told one."""
        memory, kind = self.scene.memories[node], self.wants(node)
        told = [s for s in memory.told.values() if s.claim.partition(":")[0] == kind]
        if kind in memory.seen:
            told.append(memory.seen[kind])
        held = [s for s in told if s.claim == local.commitment]
        site = held[0] if held else self._freshest(memory, told)
        return None if site is None else self.walk(node, site)

    def _freshest(self, memory: Memory, sites: Iterable[Site]) -> Site | None:
        return min(
            sites, key=lambda s: (-s.round, reach(s.cell, memory.here), s.cell), default=None
        )

    def walk(self, node: int, site: Site) -> str | None:
        """Return the move towards a site."""
        raise NotImplementedError

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject nothing."""
        return None


class PursuitSites(Sites):
    """One moving target; what was told is forgotten after twelve rounds."""

    refresh = 12
    certain = 1
    memory_span = 5
    symbols: Mapping[str, str] = {"prey": "P"}

    def claim(self, kind: str, cell: Cell) -> str:
        """Name the block the prey is in, and which prey it is."""
        captures = int(self.scene.world.score) + self.incarnation
        return f"{kind}:{cell[0] // BLOCK},{cell[1] // BLOCK}:{captures}"

    def plan(self, node: int) -> Plan:
        """Hunt."""
        scene = self.scene
        return hunt.propose(scene.memories[node], scene.windows[node], scene.draw(node))

    def lost(self, memory: Memory, site: Site) -> None:
        """Guess that the prey fled straight on, and follow the trail for a while."""
        if memory.seen.get("prey") == site:
            memory.trail = hunt.guess(memory, site)

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
