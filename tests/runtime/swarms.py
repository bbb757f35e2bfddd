"""A small world for runtime tests, whose every answer the test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from waggle.core.protocols import Act, Case, Local, Sensed, Suggestion, Write
from waggle.core.record import EpisodeRecord
from waggle.core.schema import WAIT, Contract, Evidence
from waggle.core.world import WorldBase
from waggle.laws.controls import Scripted
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine

CASE = Case("toy", "toy", 3, 10_000)
SEEN = Evidence("apple", 4, 3, 0)
REFUTED = Evidence("apple", 0, 0, 4)


class Toy(WorldBase):
    """Three nodes in a triangle; evidence and contacts are whatever the test says."""

    contract = Contract("toy", "Agree.", ("GO", "JOIN:@channel", WAIT), deposits=2, broadcast=True)
    keys = (0, 1, 2)
    n = 3

    def __init__(
        self, rounds: int = 4, evidence: Mapping[tuple[int, int], Any] | None = None
    ) -> None:
        self.rounds = rounds
        self.now = 0
        self.evidence = evidence or {}
        self.edges = {frozenset(e) for e in ((0, 1), (1, 2), (0, 2))}
        self.received: list[Write] = []
        self.withheld: str | None = None
        self.acts: list[Mapping[int, Act]] = []
        self.coverage: int | None = 4

    def neighbours(self, node: int) -> Sequence[int]:
        return [j for j in range(3) if frozenset((node, j)) in self.edges]

    def sense(self, node: int, local: Local) -> Sensed:
        rows = self.evidence.get((self.now, node), ())
        return Sensed({"hour": "noon"}, Suggestion("GO"), tuple(rows), coverage=self.coverage)

    def withhold(self, write: Write) -> str | None:
        return self.withheld

    def receive(self, write: Write, payload: object) -> Write | None:
        self.received.append(write)
        return write

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        self.acts.append(acts)
        self.now += 1
        return {i: act.action for i, act in acts.items()}

    def score(self) -> Mapping[str, float]:
        return {"score": float(self.now)}


def play(
    world: Any, law: Any, event: bool = False, case: Case = CASE, **settings: Any
) -> EpisodeRecord:
    """Play one episode in memory."""
    memory = Memory()
    engine = EventEngine if event else Engine
    engine(
        world, law if not callable(law) else Scripted(law), case, sinks=[memory], **settings
    ).play()
    return memory.record()
