"""What one agent remembers: a dead-reckoned map of what it saw, and sites it saw or was told of.

The frame is the agent's own: its first cell is (0, 0). Private memory never leaves the agent except
as evidence its law chooses to write. Invariant: `seen` comes from own windows alone, `told` from
delivered messages alone, so a private proposal that reads no `told` is the same with and without
communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waggle.substrates.swarmbench.agent.compass import add
from waggle.substrates.swarmbench.sim.config import Cell

_SOLID = frozenset("WFN*")


class Site(NamedTuple):
    """Where something was, when, and what the adapter calls it."""

    cell: Cell
    round: int
    claim: str


class Memory:
    """The private memory of one agent."""

    __slots__ = (
        "claims_gone", "clock", "denied", "field", "heading", "here", "known", "last_move",
        "passed", "plan_key", "scent", "seen", "solid", "still", "streak", "told",
        "trail", "walls",
    )  # fmt: skip

    def __init__(self) -> None:
        self.here: Cell = (0, 0)
        self.clock = 0
        """Rounds lived; used for ages only."""
        self.known: set[Cell] = set()
        """Cells ever seen."""
        self.solid: set[Cell] = set()
        """Seen cells that cannot be entered."""
        self.seen: dict[str, Site] = {}
        """Kind -> the site last seen with own eyes."""
        self.told: dict[str, Site] = {}
        """Claim -> the site as last told."""
        self.claims_gone: dict[str, int] = {}
        """Claims found wrong with own eyes, and when."""
        self.denied: dict[str, int] = {}
        """Claim -> the last round for which others denied it."""
        self.passed: dict[str, set[int]] = {}
        """Claim -> contacts this agent has told of it."""
        self.trail: Site | None = None
        """Where a target that fled from own sight may be by now."""
        self.scent: Site | None = None
        """Where a target was told to be but was not found; it may still be near."""
        self.heading: Cell | None = None
        self.last_move: str | None = None
        self.still = 0
        """Rounds in a row in which a move was tried and nothing moved."""
        self.streak = 0
        """Rounds in a row in which everyone in sight agreed (Synchronization)."""
        self.walls = 0
        """How many solid cells are known; a plan made before is out of date."""
        self.plan_key: object = None
        self.field: dict[Cell, int] = {}

    def moved(self, offset: Cell) -> None:
        """Follow the own displacement of a round."""
        tried = self.last_move in ("UP", "DOWN", "LEFT", "RIGHT")
        self.still = self.still + 1 if tried and offset == (0, 0) else 0
        self.here = add(self.here, offset)
        self.clock += 1

    def look(self, window: Sequence[str]) -> None:
        """Take a window into the map."""
        half = len(window) // 2
        top, left = self.here[0] - half, self.here[1] - half
        solid = self.solid
        for i, row in enumerate(window, top):
            cells = [(i, j) for j in range(left, left + len(row))]
            self.known.update(cells)
            solid.difference_update(cells)
            if not _SOLID.isdisjoint(row):
                solid.update(c for c, symbol in zip(cells, row, strict=True) if symbol in _SOLID)
        self.walls = len(self.solid)

    def age(self, site: Site) -> int:
        """Return the rounds since a site was seen or told."""
        return self.clock - site.round
