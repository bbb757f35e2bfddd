"""The speed table of the grid world measures what it says."""

import pytest

from benchmarks.swarmbench import OFFICIAL, SIDES, measure
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
