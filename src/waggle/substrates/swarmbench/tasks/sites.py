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
from waggle.substrates.swarmbench.agent.compass import at, found, octant, reach, sub
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.tasks.base import Plan

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
    certain = 2
    """How near a told place must be before its emptiness refutes the claim."""
    memory_span: int | None = None
    """Rounds after which a told site is forgotten; None: never."""
    patience = 0
    """Rounds without newer word after which a target missed in its place refutes the claim."""
    doubt: int | None = None
    """Rounds after which a miss is forgotten and refutes nothing any more; None: never."""
    hearsay = False
    """Whether a verified denial newer than all a node knows of a site refutes the claim for it."""

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
        missed = memory.claims_gone.get(site.claim, -1) > site.round + 1
        return old or missed or memory.denied.get(site.claim, -1) > site.round

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
            age = self._refuted_since(memory, claim)
            if age is not None:
                rows.append(Evidence(claim, max(0, MAX_BIN - age), 0, MAX_BIN))
        return tuple(rows)

    def _refuted_since(self, memory: Memory, claim: str) -> int | None:
        """Return how many rounds ago own eyes refuted a claim, or None.

        The target in sight elsewhere, or the named place found empty and no newer word of the
        target since, for as long as the task's patience lasts. A site that never moves by itself
        is refuted by another's eyes too, where the node has only ever been told of it.
        """
        own = memory.seen.get(claim.partition(":")[0])
        if own is not None and own.claim != claim:
            return memory.age(own)
        gone = memory.claims_gone.get(claim)
        if gone is None and self.hearsay and own is None:
            gone = memory.denied.get(claim)
        if gone is None or claim in memory.told:
            return None
        age = memory.clock - gone
        return None if age < self.patience or (self.doubt and age > self.doubt) else age

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
            return Cue(None, memory.clock - (self._refuted_since(memory, write.claim) or 0))
        site = self._source(write)
        if site is None:
            return Cue(None, memory.clock)
        memory.passed.setdefault(write.claim, set()).add(write.receiver)
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
            memory.denied[write.claim] = max(cue.round, memory.denied.get(write.claim, -1))
            told = memory.told.get(write.claim)
            if told is not None and self._is_stale(memory, told):
                del memory.told[write.claim]
            return write
        if cue.cell is None:
            return write
        cell = self.scene.to_frame(write.receiver, cue.cell)
        self._remember(memory, Site(cell, cue.round, write.claim))
        return msgspec.structs.replace(write, direction=octant(sub(cell, memory.here)))

    def _remember(self, memory: Memory, site: Site) -> None:
        """Keep the newest word on a claim; equally new ones are ranked by content alone."""
        if self._is_stale(memory, site):
            return
        if memory.claims_gone.get(site.claim, site.round) < site.round:
            del memory.claims_gone[site.claim]
        known = memory.told.get(site.claim)
        if known is None or _rank(site) < _rank(known):
            memory.told[site.claim] = site

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


def _rank(site: Site) -> tuple[int, Cell]:
    """Rank what was told of a claim: newest first, then by content."""
    return (-site.round, site.cell)
