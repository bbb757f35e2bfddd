"""hive: bees on a ring look for the heavier of two flowers."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from waggle.core import seeds
from waggle.core.protocols import Act, Case, Local, Sensed, Suggestion
from waggle.core.schema import WAIT, Contract, Evidence
from waggle.core.world import WorldBase


class HiveOptions(BaseModel):
    """Options of hive."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    strength: int = 3
    """Support that a bee's own taste gives a flower."""


class Hive:
    """A substrate with one task."""

    name: ClassVar[str] = "hive"
    tasks: ClassVar[tuple[str, ...]] = ("forage",)
    options: ClassVar[type[HiveOptions]] = HiveOptions

    def open(self, case: Case, keys: Sequence[int] | None = None) -> "HiveWorld":
        """Build the world of a case."""
        options = HiveOptions.model_validate(dict(case.options))
        return HiveWorld(case, options, range(case.n) if keys is None else keys)


class HiveWorld(WorldBase):
    """One episode of hive."""

    contract = Contract("hive/forage", "Agree on the heavier flower.", ("FLY", WAIT))

    def __init__(self, case: Case, options: HiveOptions, keys: Sequence[int]) -> None:
        self.n, self.keys, self.rounds = case.n, tuple(keys), case.rounds or 8
        self._strength = options.strength
        self._place = {body: node for node, body in enumerate(self.keys)}
        self._taste = [f"flower {seeds.derive(case.seed, 'taste', body) % 2}" for body in self.keys]
        self._committed: dict[int, str | None] = {}

    def neighbours(self, node: int) -> Sequence[int]:
        body = self.keys[node]
        ring = dict.fromkeys(((body + 1) % self.n, (body - 1) % self.n))
        return [self._place[other] for other in ring if other != body]

    def sense(self, node: int, local: Local) -> Sensed:
        flower = self._taste[node]
        evidence = Evidence(flower, 4, self._strength, 0)
        return Sensed({}, Suggestion("FLY", claim=flower), (evidence,), ready=(flower,))

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        self._committed.update({node: act.local.commitment for node, act in acts.items()})
        return {node: act.action for node, act in acts.items()}

    def score(self) -> Mapping[str, float]:
        held = [claim for claim in self._committed.values() if claim is not None]
        return {"score": max(map(held.count, held), default=0) / self.n}
