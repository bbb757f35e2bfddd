"""The memory of one agent: a map built by dead reckoning, and sites it saw or heard of.

The frame is the agent's own: its first cell is (0, 0). Private memory leaves the agent only as
evidence that its law chooses to write. Invariant: `seen` comes from own windows alone, `heard` from
delivered messages alone, so a private proposal that never reads `heard` is the same with and
without communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waggle.substrates.swarmbench.agent.compass import add
from waggle.substrates.swarmbench.sim.config import MOVE_NAMES, Cell

_SOLID = frozenset("WFN*")


class Site(NamedTuple):
    """The cell and round in which a target was seen, and the claim that names it."""

    cell: Cell
    round: int
    claim: str

    @property
    def kind(self) -> str:
        """The kind of target: prey, food or nest."""
        return self.claim.partition(":")[0]


class Memory:
    """The private memory of one agent."""

    __slots__ = (
        "blocked", "clock", "denied", "distance_key", "distance_map", "heading", "heard", "here",
        "known", "last_move", "refuted", "seen", "sent_to", "solid", "trail", "unsure",
    )  # fmt: skip

    def __init__(self) -> None:
        self.here: Cell = (0, 0)
        self.clock = 0
        """Rounds played; used for ages only."""
        self.known: set[Cell] = set()
        """Cells ever seen."""
        self.solid: set[Cell] = set()
        """Seen cells that cannot be entered."""
        self.seen: dict[str, Site] = {}
        """Kind -> the site last seen by this agent."""
        self.heard: dict[str, Site] = {}
        """Claim -> the site as last reported by others."""
        self.refuted: dict[str, int] = {}
        """Claim -> the round in which this agent refuted it."""
        self.unsure: set[str] = set()
        """Claims refuted only because a reported place, which is coarse, was empty."""
        self.denied: dict[str, int] = {}
        """Claim -> the last round for which others denied it."""
        self.sent_to: dict[str, set[int]] = {}
        """Claim -> contacts to which this agent sent it."""
        self.trail: Site | None = None
        """The assumed place of a target that fled out of sight."""
        self.heading: Cell | None = None
        self.last_move: str | None = None
        self.blocked = 0
        """Consecutive rounds in which the agent tried to move but stayed in its cell."""
        self.distance_key: object = None
        """The goal and the map for which `distance_map` was computed."""
        self.distance_map: dict[Cell, int] = {}

    def moved(self, offset: Cell) -> None:
        """Update position, clock and `blocked` from the agent's displacement in a round."""
        tried = self.last_move in MOVE_NAMES
        self.blocked = self.blocked + 1 if tried and offset == (0, 0) else 0
        self.here = add(self.here, offset)
        self.clock += 1

    def look(self, window: Sequence[str]) -> None:
        """Add a window to the map."""
        half = len(window) // 2
        top, left = self.here[0] - half, self.here[1] - half
        solid = self.solid
        for i, row in enumerate(window, top):
            cells = [(i, j) for j in range(left, left + len(row))]
            self.known.update(cells)
            solid.difference_update(cells)
            if not _SOLID.isdisjoint(row):
                solid.update(c for c, symbol in zip(cells, row, strict=True) if symbol in _SOLID)

    def age(self, site: Site) -> int:
        """Return the rounds since a site was seen or reported."""
        return self.clock - site.round
