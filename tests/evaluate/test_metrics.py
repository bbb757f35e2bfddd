"""Metrics on episodes small enough to count by hand."""

from __future__ import annotations

import pytest

from tests.runtime.swarms import SEEN, Toy, play
from waggle import plugins
from waggle.core.protocols import Case, Request
from waggle.core.schema import BROADCAST, Decision, Trace
from waggle.evaluate import metrics
from waggle.laws.heuristic import Heuristic
from waggle.substrates.beacon import Beacon


def law(request: Request) -> Decision:
    rows = request.view.private.evidence
    if not rows:
        return Decision("GO", None, (), None)
    return Decision("GO", None, (Trace(BROADCAST, rows[0].claim, 4, 3, 0, 8),), None)


def test_counts_of_a_tiny_episode() -> None:
    record = play(Toy(rounds=3, evidence={(0, 0): [SEEN], (1, 0): [SEEN]}), law)
    assert metrics.score(record) == 3.0
    assert metrics.candidates(record) == 2.0
    assert metrics.executed(record) == 1.0
    assert metrics.messages(record) == pytest.approx(2 / 3)
    assert metrics.executable(record) == 1.0
    assert metrics.recruitment(record) == 1.0
    assert metrics.explore(record) == pytest.approx(7 / 9)
    assert metrics.decay_mass(record) == 2 * (4 + 3) - 2 * (2 + 2)


def test_every_registered_metric_is_total_on_a_real_record() -> None:
    case = Case("beacon", "beacon", 8, 10_000)
    record = play(Beacon().open(case), Heuristic(), case=case)
    for name in plugins.names("metric"):
        value = plugins.get_metric(name)(record)
        assert value is None or isinstance(value, float)
