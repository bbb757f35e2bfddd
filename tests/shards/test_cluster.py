"""Ray gives the record of one process, also when an actor is killed; one Ray serves all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import ray

from tests.shards.episodes import BEACON, canonical, opened, settings, whole
from waggle import plugins
from waggle.core.errors import ContractError
from waggle.core.protocols import Decode, Law, Request
from waggle.core.record import RoundRecord
from waggle.runtime.recorder import Memory
from waggle.shards.cluster import Cluster, on_ray
from waggle.shards.coordinator import Coordinator

# Warnings of Ray's own code are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module", autouse=True)
def stopped() -> Iterator[None]:
    yield
    ray.shutdown()


class Pooled:
    """The heuristic, as a law that wants a pool."""

    name = "heuristic"
    batched = True

    def __init__(self) -> None:
        self._law = plugins.get_law("heuristic")

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        return self._law.decide(requests)


class Broken(Pooled):
    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        return []


def dealt(law: Law, make: Callable[[], Law], folder: Path) -> Coordinator:
    setting = settings(BEACON, law)
    return on_ray(opened(BEACON), law, make, opened, BEACON, folder=folder, shards=2, **setting)


def killing(played: Coordinator, victims: dict[int, str]) -> None:
    """Kill some actors, each after its round and once."""
    crew, left = played.crew, dict(victims)
    assert isinstance(crew, Cluster)

    def kill(entry: RoundRecord, world: object) -> None:
        victim = left.pop(entry.round, None)
        if victim is not None:
            os.kill(crew.processes()[victim], signal.SIGKILL)

    played.watch = kill


def same_record(victims: dict[int, str], folder: Path) -> None:
    law, memory = Pooled(), Memory()
    played = dealt(law, Pooled, folder)
    killing(played, victims)
    played.play([memory])
    assert len(played.losses) == len(victims)
    assert canonical(memory.record()) == canonical(whole(BEACON, law, settings(BEACON, law)))


def test_a_killed_shard_comes_back_to_the_record_of_one_process(tmp_path: Path) -> None:
    same_record({6: "shard 1"}, tmp_path / "s")


@pytest.mark.slow
def test_a_killed_law_and_a_killed_shard_come_back_to_the_same_record(tmp_path: Path) -> None:
    same_record({6: "law 0", 12: "shard 0"}, tmp_path / "s")


@pytest.mark.slow
def test_an_error_of_the_law_is_the_error_of_the_run(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="returned 0 decodes for"):
        dealt(Broken(), Broken, tmp_path / "s").play()


@pytest.mark.slow
def test_a_cheap_law_decides_in_its_shard(tmp_path: Path) -> None:
    law, memory = plugins.get_law("heuristic"), Memory()
    dealt(law, partial(plugins.get_law, "heuristic"), tmp_path / "s").play([memory])
    assert canonical(memory.record()) == canonical(whole(BEACON, law, settings(BEACON, law)))
