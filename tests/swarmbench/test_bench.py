"""The speed and law tables measure what they say."""

import pytest

from waggle.substrates.swarmbench.bench import OFFICIAL, SIDES, measure
from waggle.testing.bench_swarmbench import law_table, mechanism_table


@pytest.mark.parametrize("task", OFFICIAL)
def test_the_world_is_fast_enough_with_room_for_a_busy_machine(task):
    # The bench asks for 200 times the official rate (Flocking 100); a busy machine halves it.
    (row,) = measure((task,), (64,), seconds=0.1)
    assert row.ratio > (50 if task == "Flocking" else 100)
    assert row.viewed < row.rate * 1.5
    assert row.side == SIDES[64]


def test_sizes_without_a_limit_have_no_verdict():
    (row,) = measure(("Pursuit",), (8,), seconds=0.02)
    assert row.met is None


def test_laws_are_paired_with_private_only_on_the_same_episodes():
    rows = law_table(("private-only", "expert"), ("foraging",), (8,), range(10_000, 10_002))
    silent, expert = rows
    assert silent.above_private.mean == 0
    assert silent.executed == silent.delivered == 0
    assert expert.above_private.mean == pytest.approx(expert.score - silent.score)
    assert expert.candidate == pytest.approx(expert.executed + sum(expert.suppressed.values()))


def test_mechanism_activity_counts_every_candidate():
    rows = mechanism_table("expert", ("foraging",), 8, range(10_000, 10_002))
    mean = {row.name: row.mean for row in rows}
    assert mean["candidate"] > mean["executed"] > 0
    assert mean["refreshes"] == 0
    assert mean["route relays silenced"] > 0
