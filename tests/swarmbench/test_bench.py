"""The speed table measures what it says, and every write is accounted for."""

import pytest

from waggle.core.protocols import Case
from waggle.plugins import get_law
from waggle.runtime.sync import play
from waggle.substrates.swarmbench.adapter import SwarmBench
from waggle.substrates.swarmbench.bench import OFFICIAL, SIDES, measure
from waggle.substrates.swarmbench.sim.config import Task


@pytest.mark.parametrize("task", OFFICIAL)
def test_the_world_is_fast_enough_with_room_for_a_busy_machine(task: Task) -> None:
    # The bench asks for 200 times the official rate (Flocking 100); a busy machine halves it.
    (row,) = measure((task,), (64,), seconds=0.1)
    assert row.ratio > (50 if task == "Flocking" else 100)
    assert row.viewed < row.rate * 1.5
    assert row.side == SIDES[64]


def test_sizes_without_a_limit_have_no_verdict() -> None:
    (row,) = measure(("Pursuit",), (8,), seconds=0.02)
    assert row.met is None


def test_every_candidate_write_is_executed_or_suppressed_by_a_cause() -> None:
    case = Case("swarmbench", "foraging", 8, 10_000)
    counters = play(SwarmBench().open(case), get_law("expert"), case).counters
    suppressed = {k: v for k, v in counters.items() if k.startswith("writes.suppressed.")}
    assert counters["writes.candidate"] == counters["writes.executed"] + sum(suppressed.values())
    assert counters["writes.executed"] > 0 and suppressed["writes.suppressed.route"] > 0
    assert counters.get("writes.refreshed", 0) == 0, "foraging evidence is told once"
