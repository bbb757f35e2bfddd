"""Shards and laws in plain processes play what the synchronous engine plays."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.shards.episodes import play
from benchmarks.shards.graphs import consensus, traffic
from benchmarks.shards.processes import Processes
from benchmarks.shards.same import BEACON
from waggle import plugins


@pytest.mark.slow
def test_a_group_of_processes_plays_what_this_process_plays_more_than_once() -> None:
    law = plugins.get_law("heuristic")
    make = partial(plugins.get_law, "heuristic")
    here = play(BEACON, law, 2)
    with Processes("heuristic", make, shards=2, pool=1) as group:
        group.loaded()
        for _ in range(2):
            there = play(BEACON, law, group=group)
            assert there[:4] == here[:4] and len(there.seconds) == len(here.scores)
        (work,) = group.work()
    assert work.decisions >= 2 * BEACON.n * len(here.scores) and work.batches < work.decisions
    assert play(BEACON, law, 2, agree=True).rounds == here.rounds


def test_tables_of_graphs_have_a_row_for_everything(capsys: pytest.CaptureFixture[str]) -> None:
    traffic(n=40, rounds=3, shards=[2])
    consensus(sizes=[20], graphs=["cubic"], rounds=2, seeds=1)
    told = capsys.readouterr().out
    assert "geometric" in told and "cubic" in told and "none" in told
