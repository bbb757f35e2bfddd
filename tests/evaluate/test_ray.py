"""The Ray executor gives the rows of playing here; one local Ray serves all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import ray

from tests.evaluate.plans import numbers, plan
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.evaluate.episodes import SHARDS
from waggle.evaluate.executors import Executor, Inline, make
from waggle.evaluate.rows import read_rows
from waggle.evaluate.runner import run_plan

# Warnings of Ray's own code are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TASK_MAX_RETRIES", "0")  # a dead worker is started again three times
        yield make("ray", 2)
        ray.shutdown()


def deadly(job: int) -> int:
    if job == 3:
        os._exit(1)
    return job * job


def doubled(job: int) -> int:
    return 2 * job


def faulty(job: int) -> float:
    return 1 / job


def test_ray_gives_the_rows_and_records_of_playing_here(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_plan(plan(seeds=2), Path("there"), executor, keep=True)
    assert done == (2, 0, 0) and len(list(Path("there/records").iterdir())) == 2
    run_plan(plan(seeds=2), Path("here"), Inline())
    assert numbers(read_rows(Path("there"))) == numbers(read_rows(Path("here")))


def test_a_method_in_shards_has_the_rows_and_ids_of_one_process(
    executor: Executor, tmp_path: Path
) -> None:
    dealt = [msgspec.structs.replace(cell, shards=2) for cell in plan(seeds=1)]
    assert run_plan(dealt, tmp_path / "there", Inline()) == (1, 0, 0)
    run_plan(plan(seeds=1), tmp_path / "here", Inline())
    there, here = read_rows(tmp_path / "there"), read_rows(tmp_path / "here")
    assert numbers(there) == numbers(here) and [r.key for r in there] == [r.key for r in here]


def test_a_cell_in_shards_that_cannot_go_on_is_a_row_that_says_how(
    executor: Executor, tmp_path: Path
) -> None:
    cell = msgspec.structs.replace(plan(seeds=1)[0], shards=2)
    kept = tmp_path / SHARDS / f"m_{cell.id}" / "kept"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"what somebody has left")
    assert run_plan([cell], tmp_path, Inline()) == (0, 0, 1)
    assert f"remove {kept.parent} and play again" in read_rows(tmp_path)[0].error
    kept.unlink()
    assert run_plan([cell], tmp_path, Inline()) == (1, 0, 0) and not kept.parent.exists()


def test_workers_of_a_running_cluster_know_plug_in_files(
    executor: Executor, tmp_path: Path, clean_registry: None
) -> None:
    path = tmp_path / "ray_metric.py"
    path.write_text("from waggle import metric\n\n@metric('buzz')\ndef buzz(e): return 1.0\n")
    plugins.load_file(path)
    there = executor.map(plugins.names, ["metric"])  # type: ignore[arg-type]
    assert list(there) == [plugins.names("metric")]
    assert "buzz" in plugins.names("metric")


def test_every_job_is_done_once_though_few_run_at_a_time(executor: Executor) -> None:
    assert sorted(executor.map(doubled, range(10))) == list(range(0, 20, 2))


def test_dead_workers_are_one_line_and_a_bug_stays_a_bug(executor: Executor) -> None:
    with pytest.raises(ConfigError, match="run the same command again with fewer --workers"):
        list(executor.map(deadly, range(2, 4)))
    with pytest.raises(ZeroDivisionError):
        list(executor.map(faulty, [0]))
