"""Without call delay the event-driven engine is the synchronous one, on every substrate and law."""

from __future__ import annotations

import msgspec
import pytest

from waggle import plugins
from waggle.core.protocols import Case
from waggle.runtime.perturb import Perturbation
from waggle.runtime.replay import first_difference
from waggle.testing.episodes import play

CASES = (
    Case("silo", "I-05", 6, 10_003, 9, True),
    Case("silo", "II-11", 6, 10_003, 9),
    Case("swarmbench", "pursuit", 6, 10_000, 24, True),
    Case("swarmbench", "foraging", 8, 10_003, 52, True),
    Case("swarmbench", "synchronization", 8, 10_003, 8),
    Case("swarmbench", "flocking", 8, 10_003, 8),
    Case("swarmbench", "transport", 8, 10_003, 8),
    Case("agentsnet", "coloring", 8, 10_003),
)
REGIMES = (Perturbation(), Perturbation(delay=2, loss=0.1, churn=0.2, departures=0.2, arrivals=0.2))


@pytest.mark.parametrize("law", ["expert", "random-legal"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.task)
def test_both_engines_play_one_episode(case: Case, law: str) -> None:
    for regime in REGIMES:
        check_engines(case, law, regime)


def check_engines(case: Case, law: str, regime: Perturbation) -> None:
    """Play a case on both engines and compare the records."""
    substrate, source = plugins.get_substrate(case.substrate), plugins.get_law(law)
    sync = play(substrate, source, case, engine="sync", perturbation=regime)
    event = play(substrate, source, case, engine="event", perturbation=regime)
    header = msgspec.structs.replace(sync.header, engine="event")
    assert first_difference(msgspec.structs.replace(sync, header=header), event) == ""
    assert sync.rounds == event.rounds and sync.footer == event.footer
    if case.shock and law == "expert" and regime == Perturbation():
        assert sync.shock is not None, "no counterevidence to compare"
