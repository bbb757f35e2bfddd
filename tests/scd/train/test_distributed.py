"""Two processes give the update of one, up to rounding."""

from __future__ import annotations

import os
import socket
from functools import partial
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from tests.scd.runs import changed, last_weights
from waggle.scd.config import Recipe
from waggle.scd.heads import Heads
from waggle.scd.run import stages as stages_module
from waggle.scd.run.stages import Stages
from waggle.scd.train.distributed import Processes

STILL = partial(Heads, dropout=0.0)
"""Heads that draw nothing: each process would draw for its own share of the transitions."""


def member(group: dict[str, str], recipe: Recipe, corpus: Path, out: Path) -> None:
    """Train as one process of a group."""
    os.environ.update(group)
    torch.set_num_threads(1)
    with patch.object(stages_module, "Heads", STILL):
        stages = Stages(recipe, corpus, out, 0)
        stages.warm_start()
        stages.arm("scd", until=1)


def test_two_processes_are_one(
    recipe: Recipe,
    corpus: Path,
    tmp_path: Path,
    workers: ForkServerContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stages_module, "Heads", STILL)
    # The time budget is never spent, but all processes have to agree on the time.
    still = changed(
        recipe, adaptation={"dropout": 0.0}, stage_one={"updates": 2, "seconds": 86_400}
    )
    alone = Stages(still, corpus, tmp_path / "alone", 0)
    alone.warm_start()
    alone.arm("scd", until=1)
    with socket.socket() as held:
        # Held until the group has ended: no other program is given this port, and the group may
        # listen there, since this socket does not.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1",
                 "MASTER_PORT": str(held.getsockname()[1])}  # fmt: skip
        both = []
        for rank in ("0", "1"):
            own = {**group, "RANK": rank, "LOCAL_RANK": rank}
            both.append(workers.Process(target=member, args=(own, still, corpus, tmp_path / "two")))
        for process in both:
            process.start()
        for process in both:
            process.join(600)
    assert [process.exitcode for process in both] == [0, 0]
    for stage in ("warm-start", "scd"):
        one, other = (last_weights(tmp_path / run / "seed-0" / stage) for run in ("alone", "two"))
        assert all(torch.allclose(one[k], other[k], atol=1e-6) for k in one), stage
    assert (tmp_path / "two/seed-0/warm-start/law/adapter_config.json").exists()


def test_items_are_shared_out_and_all_results_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Processes(alone=True)
    group.count, group.rank = 3, 1
    asked: list[int] = []

    def run(function: Any, items: Any) -> Any:
        asked.extend(items)
        return (function(None, item) for item in items)

    def gather(own: list[int]) -> list[list[int]]:
        return [[0, 9], own, [4]]  # as the others would

    monkeypatch.setattr(group, "gather", gather)
    assert list(group.shared(run)(lambda _, item: item**2, range(4))) == [0, 1, 4, 9]
    assert asked == [1]
