"""Several training processes are one, and outlive the death of one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("accelerate", reason="needs the llm extra")

from benchmarks.distributed import measure


@pytest.mark.slow
def test_two_and_four_processes_are_one_also_after_a_kill(tmp_path: Path) -> None:
    rows = measure(["train", "learn"], [1, 2, 4], tmp_path)
    assert [(row.command, row.processes) for row in rows if not row.killed] == [
        *[("train", 2)] * 2, *[("train", 4)] * 2, ("learn", 2), ("learn", 4),
    ]  # fmt: skip
    for row in rows:
        assert row.loss < 1e-5 and row.far < 1e-3 and row.weight < row.step / 10, row
    resumed = [row for row in rows if row.killed and row.command == "train"]
    assert len(resumed) == 2 and all(row.loss == row.weight == 0 for row in resumed)
