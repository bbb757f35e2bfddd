"""Ray gives the record of one process, also when an actor is killed; one Ray serves all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
import ray

from benchmarks.shards.episodes import opened
from benchmarks.shards.faults import Pooled
from benchmarks.shards.same import (
    BEACON,
    COLORING,
    LAWS,
    REGIMES,
    SILO,
    TINY,
    WORLDS,
    Staying,
    canonical,
    differences,
    settings,
    whole,
)
from waggle.core.errors import ConfigError, ContractError
from waggle.core.protocols import Decode, Law, Request
from waggle.core.record import RoundRecord
from waggle.runtime.recorder import Memory
from waggle.shards.cluster import Cluster, connect, on_ray
from waggle.shards.coordinator import Coordinator

# Warnings of Ray's own code are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module", autouse=True)
def stopped() -> Iterator[None]:
    yield
    ray.shutdown()
    Staying.shards.clear()
    Staying.pools.clear()


class Broken(Pooled):
    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        return []


def dealt(law: Law, make: Callable[[], Law], folder: Path) -> Coordinator:
    setting = settings(BEACON, law)
    return on_ray(opened(BEACON), law, make, opened, BEACON, folder=folder, shards=2, **setting)


def killing(played: Coordinator, victims: dict[int, str]) -> None:
    """Kill some actors, each after its round and once."""
    group, left = played.group, dict(victims)
    assert isinstance(group, Cluster)

    def kill(entry: RoundRecord, world: object) -> None:
        victim = left.pop(entry.round, None)
        if victim is not None:
            os.kill(group.processes()[victim], signal.SIGKILL)

    played.watch = kill


def same_record(victims: dict[int, str], folder: Path) -> None:
    law, memory = Pooled(), Memory()
    played = dealt(law, Pooled, folder)
    killing(played, victims)
    played.play([memory])
    assert len(played.losses) == len(victims)
    assert canonical(memory.record()) == canonical(whole(BEACON, law, settings(BEACON, law)))


@pytest.mark.parametrize(
    ("error", "address", "line"),
    [
        (Exception("The current node timed out during startup."), "", "less busy"),
        (ConnectionError("Failed to connect"), "auto", r"\(Failed to connect\); unset RAY_ADDRESS"),
    ],
)
def test_a_ray_that_does_not_start_or_connect_is_one_line(
    error: Exception, address: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**options: object) -> None:
        raise error

    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ConfigError, match=line):
        connect()


def test_a_killed_shard_comes_back_to_the_record_of_one_process(tmp_path: Path) -> None:
    same_record({6: "shard 1"}, tmp_path / "s")


@pytest.mark.slow
def test_a_killed_law_and_a_killed_shard_come_back_to_the_same_record(tmp_path: Path) -> None:
    same_record({6: "law 0", 12: "shard 0"}, tmp_path / "s")


@pytest.mark.slow
def test_a_second_loss_in_a_row_is_one_line_and_the_same_call_goes_on(tmp_path: Path) -> None:
    played = dealt(Pooled(), Pooled, tmp_path / "s")
    killing(played, {6: "shard 1", 7: "law 0"})
    with pytest.raises(ConfigError, match=r"second loss in a row; .* before round 5: run the same"):
        played.play()
    same_record({}, tmp_path / "s")


@pytest.mark.slow
def test_an_error_of_the_law_is_the_error_of_the_run(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="returned 0 decodes for"):
        dealt(Broken(), Broken, tmp_path / "s").play()


def test_a_sample_of_worlds_and_laws_has_the_records_of_one_process_on_ray() -> None:
    for case, law in zip((BEACON, SILO, COLORING), LAWS, strict=True):
        assert not differences(case, law, ["many at a time"], [2])


@pytest.mark.slow
def test_every_world_law_and_perturbation_has_the_records_of_one_process_on_ray() -> None:
    for case in WORLDS:
        for law in LAWS:
            assert not differences(case, law, list(REGIMES), [1, 2, 4])


@pytest.mark.slow
def test_a_law_with_weights_in_two_actors_has_the_records_of_one_process() -> None:
    small = msgspec.structs.replace(BEACON, n=8, rounds=4)
    assert not differences(small, TINY, ["many at a time"], [1, 2])
