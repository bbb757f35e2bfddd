"""Two machines of a Ray cluster, of which one is lost with all its actors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from benchmarks.shards.episodes import opened
from benchmarks.shards.same import BEACON, canonical, settings, whole
from waggle import plugins
from waggle.core.record import RoundRecord
from waggle.runtime.recorder import Memory
from waggle.shards.cluster import on_ray

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def test_a_lost_machine_comes_back_to_the_record_of_one_process(tmp_path: Path) -> None:
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    other = machines.add_node(num_cpus=1)
    try:
        ray.init(address=machines.address, log_to_driver=False)
        law, memory, rounds = plugins.get_law("heuristic"), Memory(), list[int]()
        setting = settings(BEACON, law)

        def lose(entry: RoundRecord, world: object) -> None:
            if entry.round == 6 and not rounds.count(6):
                machines.remove_node(other, allow_graceful=False)
                known: Any = ray.nodes  # which has no types
                while sum(machine["Alive"] for machine in known()) > 1:
                    time.sleep(0.1)
            rounds.append(entry.round)

        played = on_ray(
            opened(BEACON), law, lambda: law, opened, BEACON, folder=tmp_path / "s", shards=4,
            watch=lose, **setting,
        )  # fmt: skip
        played.play([memory])
        assert played.losses and rounds.count(5) == 2, "some shards were there, and are no more"
        assert canonical(memory.record()) == canonical(whole(BEACON, law, setting))
    finally:
        ray.shutdown()
        machines.shutdown()  # type: ignore[no-untyped-call]
