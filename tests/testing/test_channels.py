"""Payloads and compilers: the law organises the swarm, and an adapter that does is caught."""

from __future__ import annotations

import pytest

from tests.testing import walkers
from waggle import plugins
from waggle.core.protocols import Case, Write
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.agent.bearing import Bearing
from waggle.substrates.swarmbench.sim.config import Cell
from waggle.substrates.swarmbench.tasks.base import Report
from waggle.substrates.swarmbench.tasks.sites import Sites
from waggle.testing import channels, check_substrate
from waggle.testing.episodes import short


def failed(world: type[walkers.Walkers]) -> set[str]:
    report = check_substrate(walkers.WalkersSubstrate(world), trajectories=False)
    return {check.name for check in report.failures}


def test_the_honest_walkers_conform() -> None:
    report = check_substrate(walkers.WalkersSubstrate()).require()
    assert [check.name for check in report.checks][-2:] == ["payload", "law chooses"]


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (walkers.MapCell, {"payload"}),
        (walkers.KeptBeat, {"payload"}),
        (walkers.Overriding, {"law chooses"}),
        (walkers.Obeying, {"law chooses"}),
        (walkers.Picking, {"law chooses"}),
        (walkers.Deaf, {"law chooses"}),
        (walkers.Mumbling, set()),
        (walkers.Binding, set()),
        (walkers.Declared, set()),
    ],
)
def test_a_world_that_organises_is_caught(world: type[walkers.Walkers], expected: set[str]) -> None:
    assert failed(world) == expected


def test_a_finding_names_the_payloads_and_the_remedy() -> None:
    substrate = walkers.WalkersSubstrate(walkers.MapCell)
    found = next(channels.unseen(substrate, Case("walkers", "walkers", 8, 10_000)))
    assert "one sent (" in found and "in its bins" in found


def test_a_declared_exception_is_shown() -> None:
    report = check_substrate(walkers.WalkersSubstrate(walkers.Declared), trajectories=False)
    assert "exempt: declared" in str(report)
    assert plugins.get_substrate("silo").open(Case("silo", "I-05", 8, 10_000)).snapshots


@pytest.mark.parametrize("task", ["I-05", "III-26"])
def test_the_law_organises_silo(task: str) -> None:
    # All tasks of the other substrates are checked whole, these two checks among others, by tests
    # of their own.
    substrate, case = plugins.get_substrate("silo"), Case("silo", task, 8, 10_000)
    assert next(channels.unseen(substrate, case), None) is None
    assert next(channels.overridden(substrate, short(substrate, case)), None) is None


def test_an_exact_cell_of_the_map_is_caught_in_swarmbench(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: what travels is the cell of the map where the target was seen."""

    def payload(self: Sites, write: Write) -> Report | None:
        site = self._shown(self.scene.memories[write.sender]).get(write.claim)
        cell = None if site is None else self.scene.to_map(write.sender, site.cell)
        return None if cell is None else Report(Bearing(*cell), 0)

    def place_of(self: Sites, write: Write, report: Report) -> Cell:
        return self.scene.to_frame(write.receiver, report.place)

    monkeypatch.setattr(Sites, "payload", payload)
    monkeypatch.setattr(Sites, "place_of", place_of)
    found = next(channels.unseen(SwarmBench(), Case("swarmbench", "pursuit", 8, 10_000)), None)
    assert found is not None and "in its bins" in found
