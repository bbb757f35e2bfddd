"""Pursuit and Foraging: evidence is a site, a claim is (kind, block of the map, incarnation).

Two observers of one target share a claim, and a relocated target gets a new claim. A claim is
refuted by the agent's own window: the place it names is in sight without the target, or the target
is in sight elsewhere. A write carries the bearing and the age that the writer's view shows of the
claim; the reader stores the place these bins stand for, in its own frame. A reported place is
coarse, so finding it empty counts against the claim only after a delay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

import msgspec

from waggle.core.protocols import Local, Write
from waggle.core.schema import MAX_BIN, Evidence, Fact
from waggle.substrates.swarmbench.agent.compass import add, at, chebyshev, find, octant, sub
from waggle.substrates.swarmbench.agent.memory import Memory, Site
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.tasks.base import Behaviour, Plan, Report

BLOCK = 6
"""Side of the map blocks that distinguish claims."""
_SHOWN = 8
"""Maximum number of reported claims whose facts a view shows."""


class ShockRule(NamedTuple):
    """The rule for late counterevidence: a share of the nodes is committed to a kind of site."""

    kind: str
    shares: tuple[tuple[int, Fraction], ...]
    """Pairs of a round and the share of the nodes that must be committed from that round on."""

    def is_due(self, scene: Scene, round: int, committed: Mapping[int, str]) -> bool:
        """Return whether enough nodes hold a claim of the kind."""
        held = len(self.held(committed))
        return any(round >= at and held >= share * scene.world.n for at, share in self.shares)

    def held(self, committed: Mapping[int, str]) -> list[str]:
        """Return the claims of the kind that nodes are committed to."""
        return [claim for claim in committed.values() if claim.startswith(f"{self.kind}:")]

    def refuted(self, committed: Mapping[int, str], named: Iterable[str]) -> tuple[str, ...]:
        """Return the claims that a relocation makes wrong: all held, and those named."""
        return tuple(sorted({*self.held(committed), *named}))


class Sites(Behaviour):
    """The common part of Pursuit and Foraging.

    The memory of a node stores what happened to a claim; `_refuted_since` derives whether the node
    holds it refuted. For a claim C, the events and their effects are:

    * C's target comes into sight: C is `seen`, and its refutation is cleared. The claims of the
      same kind leave `heard`, and those other than C are refuted.
    * The place where the node saw it is in sight without it: C is refuted, and leaves `seen` and
      `heard`.
    * A reported place of it is near, but no such target is in sight: C leaves `heard`; unless the
      node has `seen` C, it is refuted, but `unsure`.
    * A report arrives: C is `heard`, and an older refutation is cleared. The report is ignored if
      it is stale, and dropped once it is.
    * A denial arrives: C is `denied`.
    """

    refresh: int | None = None
    symbols: Mapping[str, str] = {}
    """Kind of site -> its symbol."""
    certain_within = 2
    """Distance within which a reported place that is empty counts against the claim."""
    forget_after: int | None = None
    """Rounds after which a reported site is stale; None: never."""
    refute_after = 0
    """Rounds from which a stored refutation or denial counts, if no newer report arrives."""
    doubt = 0
    """Rounds from which an unsure refutation counts, if they are more than `refute_after`."""
    refute_until: int | None = None
    """Rounds after which a stored refutation or denial no longer counts; None: never."""
    accepts_denials = False
    """Whether a denial by others counts as a refutation if the node knows nothing newer."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.incarnation = 0

    def claim(self, kind: str, cell: Cell) -> str:
        """Return the claim that a kind of site is in a cell's block of the map."""
        return f"{kind}:{cell[0] // BLOCK},{cell[1] // BLOCK}:{self.incarnation}"

    def look(self, node: int) -> Plan:
        """Update what is seen, reported and refuted from the window, then plan."""
        memory, window = self.scene.memories[node], self.scene.windows[node]
        self._store_sightings(node, memory, window)
        self._refute_sightings(memory, window)
        self._refute_reports(memory, window)
        for site in [site for site in memory.heard.values() if self._is_stale(memory, site)]:
            del memory.heard[site.claim]
        return self.plan(node)

    def anchor(self, cell: Cell) -> Cell:
        """Return the cell of the map that names a target seen at `cell`."""
        return cell

    def _store_sightings(self, node: int, memory: Memory, window: list[str]) -> None:
        """Store the nearest target of each kind in sight; refute reports that it is elsewhere."""
        for kind, symbol in self.symbols.items():
            offsets = find(window, symbol)
            if offsets:
                cell = add(memory.here, min(offsets, key=lambda o: (abs(o[0]) + abs(o[1]), o)))
                claim = self.claim(kind, self.anchor(self.scene.to_map(node, cell)))
                memory.seen[kind] = Site(cell, memory.clock, claim)
                _clear_refutation(memory, claim)
                for other in [s.claim for s in memory.heard.values() if s.kind == kind]:
                    if other != claim:
                        _refute(memory, other)
                    del memory.heard[other]

    def _refute_sightings(self, memory: Memory, window: list[str]) -> None:
        """Refute the claims whose target was seen at a place in sight and is missing there."""
        half = len(window) // 2
        for site in list(memory.seen.values()):
            offset = sub(site.cell, memory.here)
            symbol = self.symbols[site.kind]
            if chebyshev(offset) <= half and self._missing(window, offset, symbol):
                _refute(memory, site.claim)
                self.lost(memory, site)
                memory.heard.pop(site.claim, None)
                del memory.seen[site.kind]

    def _missing(self, window: list[str], offset: Cell, symbol: str) -> bool:
        return at(window, offset) != symbol

    def lost(self, memory: Memory, site: Site) -> None:
        """Handle a target that is missing from the place where it was seen."""

    def _refute_reports(self, memory: Memory, window: list[str]) -> None:
        """Drop reports of near places while no such target is in sight; refute what is not seen."""
        for site in list(memory.heard.values()):
            near = chebyshev(site.cell, memory.here) <= self.certain_within
            if near and not any(self.symbols[site.kind] in row for row in window):
                del memory.heard[site.claim]
                if site.claim not in {own.claim for own in memory.seen.values()}:
                    _refute(memory, site.claim, unsure=True)

    def _is_stale(self, memory: Memory, site: Site) -> bool:
        """Return whether a reported site is too old, or was refuted or denied after it was seen.

        A target seen in the round of the refutation was seen elsewhere, so its report is not stale.
        """
        old = self.forget_after is not None and memory.age(site) > self.forget_after
        refuted = memory.refuted.get(site.claim, -1) > site.round + 1
        return old or refuted or memory.denied.get(site.claim, -1) > site.round

    def plan(self, node: int) -> Plan:
        """Return the private move."""
        raise NotImplementedError

    def wants(self, node: int) -> str:
        """Return the kind of site the node needs now."""
        raise NotImplementedError

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Return sites that the node saw, and verified conflict with claims that reached it."""
        memory = self.scene.memories[node]
        rows = [self._seen_row(node, site) for site in memory.seen.values()]
        rows = [row for row in rows if row.support > 0]
        for claim in _incident(local):
            age = self._refuted_since(memory, claim)
            if age is not None:
                rows.append(Evidence(claim, max(0, MAX_BIN - age), 0, MAX_BIN))
        return tuple(rows)

    def _refuted_since(self, memory: Memory, claim: str) -> int | None:
        """Return how many rounds ago a claim was refuted, or None if it is not refuted now."""
        own = memory.seen.get(claim.partition(":")[0])
        if own is not None and own.claim != claim:
            return memory.age(own)  # the node saw the target elsewhere
        if claim in memory.heard:
            return None  # a report that is not stale outweighs refutations and denials
        since = memory.refuted.get(claim)
        if since is None and self.accepts_denials and own is None:
            since = memory.denied.get(claim)
        if since is None:
            return None
        age = memory.clock - since
        patience = max(self.refute_after, self.doubt if claim in memory.unsure else 0)
        expired = self.refute_until is not None and age > self.refute_until
        return None if age < patience or expired else age

    def _seen_row(self, node: int, site: Site) -> Evidence:
        """Return evidence of a site that the node saw."""
        raise NotImplementedError

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """Return kind, source, bearing and age of the claims the node knows."""
        memory = self.scene.memories[node]
        rows: dict[str, dict[str, Fact]] = {}
        for site in self._shown(memory).values():
            place, age = self.report(node, site.cell, memory.age(site))
            source = "seen" if memory.seen.get(site.kind) is site else "told"
            rows[site.claim] = {
                "kind": site.kind, "source": source, **place._asdict(), "age": age
            }  # fmt: skip
        for claim in _incident(local):
            rows.setdefault(claim, {"kind": claim.partition(":")[0]})
        return rows

    def _shown(self, memory: Memory) -> dict[str, Site]:
        """Return the sites whose places a view shows, by claim: seen ones and newest reports."""
        newest = sorted(memory.heard.values(), key=lambda s: (-s.round, s.cell))[:_SHOWN]
        return {site.claim: site for site in (*newest, *memory.seen.values())}

    def payload(self, write: Write) -> Report | None:
        """Return the bearing and age that the writer's view shows of the claim."""
        memory = self.scene.memories[write.sender]
        site = self._shown(memory).get(write.claim)
        if write.conflict or site is None:
            return None
        memory.sent_to.setdefault(write.claim, set()).add(write.receiver)
        return self.report(write.sender, site.cell, memory.age(site))

    def receive(self, write: Write, payload: object) -> Write:
        """Store a reported site unless newer knowledge excludes it; set the direction to it.

        The age of a denial follows from its novelty: one bin less for every round.
        """
        memory = self.scene.memories[write.receiver]
        written = memory.clock - 1
        if write.conflict:
            since = written - (MAX_BIN - write.novelty)
            memory.denied[write.claim] = max(since, memory.denied.get(write.claim, -1))
            known = memory.heard.get(write.claim)
            if known is not None and self._is_stale(memory, known):
                del memory.heard[write.claim]
            return write
        if not isinstance(payload, Report):
            return write
        cell = self.place_of(write, payload)
        self._remember(memory, Site(cell, written - payload.age, write.claim))
        return msgspec.structs.replace(write, direction=octant(sub(cell, memory.here)))

    def _remember(self, memory: Memory, site: Site) -> None:
        """Keep the newest report of a claim; ties are broken by the cell alone."""
        if self._is_stale(memory, site):
            return
        if memory.refuted.get(site.claim, site.round) < site.round:
            _clear_refutation(memory, site.claim)
        known = memory.heard.get(site.claim)
        if known is None or (-site.round, site.cell) < (-known.round, known.cell):
            memory.heard[site.claim] = site

    def walk(self, node: int, claim: str) -> str | None:
        """Return one step towards the place that the view shows for a claim, or None."""
        site = self._shown(self.scene.memories[node]).get(claim)
        return None if site is None else self.step_towards(node, site)

    def step_towards(self, node: int, site: Site) -> str | None:
        """Return one step towards a site."""
        raise NotImplementedError


def _refute(memory: Memory, claim: str, unsure: bool = False) -> None:
    memory.refuted[claim] = memory.clock
    if unsure:
        memory.unsure.add(claim)
    else:
        memory.unsure.discard(claim)


def _clear_refutation(memory: Memory, claim: str) -> None:
    memory.refuted.pop(claim, None)
    memory.unsure.discard(claim)


def _incident(local: Local) -> list[str]:
    """Return the claims of the traces and of the commitment that a node holds."""
    claims = dict.fromkeys(trace.claim for trace in local.traces)
    if local.commitment is not None:
        claims[local.commitment] = None
    return list(claims)
