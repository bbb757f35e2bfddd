"""beacon: the teaching substrate, and the template for your own.

A beacon shows one colour. A share of the nodes, the scouts, see it; all other nodes learn it from
traces on a sparse random graph, and every node should commit to the current colour. Late
counterevidence (`shock`) changes the colour half-way: a node that sees or hears of the new colour
has verified conflict against the old one, so commitments form, hold, reopen and re-form.
Invariant: the world is drawn for *bodies*, and body keys[i] stands at node i, so relabelling the
nodes does not change the episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from waggle.core import seeds
from waggle.core.errors import ConfigError
from waggle.core.protocols import Act, Case, Local, Sensed, Shock, Suggestion, Write
from waggle.core.schema import MAX_BIN, WAIT, Contract, Evidence
from waggle.core.world import WorldBase, read_options
from waggle.substrates.beacon_graphs import GraphName, adjacency, drawn_order

WATCH = "WATCH"
"""Look towards the beacon; a scout that waits does not see it."""

CONTRACT = Contract(
    task="beacon",
    goal="Commit to the colour that the beacon shows now and pass on what you know of it. "
    "A newer showing refutes an older one.",
    actions=(WATCH, WAIT),
)

_COLOURS = ("amber", "blue", "green", "red", "violet", "white")
_READY_SUPPORT = 4
"""Summed trace support at which a claim is ready for a node that does not see the beacon."""


class BeaconOptions(BaseModel):
    """Options of beacon."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    scouts: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Share of nodes that see the beacon; at least one does."""

    graph: GraphName = "rings"
    """Contact graph: two random rings, a random cubic graph, a small world, or neighbours of random
    points in the plane."""


class Beacon:
    """The teaching substrate: a few nodes see the beacon's colour, all should commit to it."""

    name: ClassVar[str] = "beacon"
    tasks: ClassVar[tuple[str, ...]] = ("beacon",)
    options: ClassVar[type[BeaconOptions]] = BeaconOptions

    def open(self, case: Case, keys: Sequence[int] | None = None) -> BeaconWorld:
        """Build the world of a case."""
        if case.n < 1:
            raise ConfigError(f"beacon needs at least one node, not {case.n}; use -n 1 or more")
        options = read_options(BeaconOptions, case)
        return BeaconWorld(case, options, range(case.n) if keys is None else keys)


class BeaconWorld(WorldBase):
    """One episode: the contact graph, the scouts, and what each node has heard."""

    contract = CONTRACT
    refresh = 4

    def __init__(self, case: Case, options: BeaconOptions, keys: Sequence[int]) -> None:
        self.n, self.keys = case.n, tuple(keys)
        self.rounds = 32 if case.rounds is None else case.rounds
        self._shocking = case.shock
        place = {body: node for node, body in enumerate(self.keys)}
        self._adjacent = [()] * self.n if self.n == 1 else adjacency(case, options.graph, place)
        # Decimal arithmetic: 0.07 of 100 nodes is seven, but the binary product is above 7.
        count = ceil(Fraction(str(options.scouts)) * case.n)
        self._scouts = [place[body] for body in drawn_order(case, "scouts")[:count]]
        shown = sorted(_COLOURS, key=lambda colour: seeds.derive(case.seed, "colour", colour))
        self._claims = [f"{colour}:{showing}" for showing, colour in enumerate(shown[:2])]
        self._showing = 0
        self._sees = set(self._scouts)
        self._heard = [-1] * self.n
        self._committed: list[str | None] = [None] * self.n

    def neighbours(self, node: int) -> Sequence[int]:
        """Return the fixed contacts of a node; in `rings`, almost every node has four."""
        return self._adjacent[node]

    def sense(self, node: int, local: Local) -> Sensed:
        """Show the beacon to scouts, and to every node the claims that a newer colour refutes."""
        sees = node in self._sees
        newest = self._showing if sees else self._heard[node]
        support: dict[str, int] = {}
        for held in local.traces:
            support[held.claim] = support.get(held.claim, 0) + held.support
        if local.commitment is not None:
            support.setdefault(local.commitment, 0)
        evidence = [
            Evidence(claim, MAX_BIN, 0, MAX_BIN)
            for showing, claim in enumerate(self._claims)
            if showing < newest and claim in support
        ]
        present = self._claims[newest] if newest >= 0 else None
        if sees:
            evidence.append(Evidence(self._claims[newest], MAX_BIN, MAX_BIN, 0))
        total = MAX_BIN if sees else min(MAX_BIN, support.get(present or "", 0))
        return Sensed(
            observation={"beacon": "in sight" if sees else "out of sight"},
            proposal=Suggestion(WATCH, claim=present if sees else None),
            evidence=tuple(evidence),
            ready=(present,) if present is not None and total >= _READY_SUPPORT else (),
            coverage=total,
            claims={claim: {"colour": claim.partition(":")[0]} for claim in support},
        )

    def receive(self, write: Write, payload: object) -> Write:
        """Record the newest colour that the receiver heard supported; it refutes older ones."""
        if write.conflict == 0:
            showing = self._claims.index(write.claim)
            self._heard[write.receiver] = max(self._heard[write.receiver], showing)
        return write

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Record which nodes watch and what each node is committed to."""
        native = {}
        for node, act in acts.items():
            watches = act.action == WATCH and act.intent != WAIT
            native[node] = WATCH if watches else WAIT
            if node in self._sees:
                self._heard[node] = self._showing
            self._committed[node] = act.local.commitment
        self._sees = {node for node in self._scouts if native.get(node) == WATCH}
        return native

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Change the colour half-way."""
        if not self._shocking or round != self.rounds // 2:
            return None
        self._showing = 1
        old, new = self._claims
        return Shock(round, (old,), (new,), tuple(self._scouts), "the beacon changes its colour")

    def restrict(self, nodes: Sequence[int]) -> None:
        """Drop the contacts of nodes that other shards play; contacts take most of the memory."""
        super().restrict(nodes)
        kept: list[tuple[int, ...]] = [()] * self.n
        for node in nodes:
            kept[node] = self._adjacent[node]
        self._adjacent = kept

    def report(self) -> list[str | None]:
        """Return the commitment of every node played here."""
        return [self._committed[node] for node in self.active()]

    def absorb(self, parts: Sequence[tuple[Sequence[int], list[str | None]]]) -> None:
        """Store the commitments reported by all shards."""
        for nodes, committed in parts:
            for node, claim in zip(nodes, committed, strict=True):
                self._committed[node] = claim

    def score(self) -> Mapping[str, float]:
        """Return the shares of nodes committed to the current colour and to an earlier one."""
        present = self._claims[self._showing]
        right = self._committed.count(present)
        held = self.n - self._committed.count(None)
        return {"score": right / self.n, "stale": (held - right) / self.n}

    def share(self, node: int) -> float:
        """Return a node's part of the score: 1 if it is committed to the current colour, else 0."""
        return float(self._committed[node] == self._claims[self._showing])

    def render(self) -> str:
        """Draw the beacon's colour and one letter per node: its committed colour, or a dot."""
        marks = "".join("." if claim is None else claim[0] for claim in self._committed)
        return f"beacon {self._claims[self._showing].partition(':')[0]:7}{marks}"
