"""Batching across episodes changes no record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from waggle.core.protocols import Case, Decode, Request
from waggle.laws.controls import RandomLegal
from waggle.laws.heuristic import Heuristic
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import first_difference
from waggle.runtime.sync import Engine, play_together
from waggle.substrates.beacon import Beacon

CASES = [
    Case("beacon", "beacon", n, 10_000 + n, rounds=3 + n % 4, shock=True) for n in range(4, 12)
]


class Counting:
    """A law that notes the size of every batch."""

    def __init__(self, law: Heuristic | RandomLegal) -> None:
        self.law, self.name = law, law.name
        self.sizes: list[int] = []

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        self.sizes.append(len(requests))
        return self.law.decide(requests)


@pytest.mark.parametrize("law", [Heuristic(), RandomLegal()])
@pytest.mark.parametrize("width", [1, 20, 10_000])
def test_each_record_is_what_it_would_be_alone(law: Heuristic | RandomLegal, width: int) -> None:
    memories = {case.seed: Memory() for case in CASES}
    counting = Counting(law)

    def engines() -> Iterator[Engine]:
        for case in CASES:
            yield Engine(
                Beacon().open(case),
                counting,
                case,
                sinks=[memories[case.seed]],
                perturbation=Perturbation(loss=0.1),
            )

    ended = [engine.case.seed for engine, _ in play_together(engines(), counting, width)]
    assert sorted(ended) == sorted(memories)
    for case in CASES:
        alone = Memory()
        settings = {"sinks": [alone], "perturbation": Perturbation(loss=0.1)}
        Engine(Beacon().open(case), law, case, **settings).play()  # type: ignore[arg-type]
        assert first_difference(alone.record(), memories[case.seed].record()) == ""
    if width > 100:
        assert max(counting.sizes) == sum(case.n for case in CASES)


def test_an_episode_without_rounds_ends_at_once() -> None:
    case = msgspec.structs.replace(CASES[0], rounds=0)
    memory = Memory()
    engine = Engine(Beacon().open(case), Heuristic(), case, sinks=[memory])
    assert [footer.rounds for _, footer in play_together([engine], Heuristic())] == [0]
