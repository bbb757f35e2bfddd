"""Lanes as they are started for a GPU, afresh: each keeps to its part of the memory.

The law comes from an installed package, as a fresh process knows no other; the GPUs are made up.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from tests.evaluate.test_runner import numbers, plan
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.engine import memory as sharing
from waggle.evaluate import lanes
from waggle.evaluate.executors import Inline
from waggle.evaluate.rows import read_rows
from waggle.evaluate.runner import run_plan

PACKAGE = '''
import os
import sys
from types import SimpleNamespace

from waggle.laws.heuristic import Heuristic


class Lodger(Heuristic):
    """Writes down, in a file for each process, which part of which GPU it is kept to."""

    name = "lodger"
    batched = True

    def __init__(self, told: str) -> None:
        super().__init__()
        self._told = told

    def load(self) -> None:
        assert "torch" not in sys.modules, "a fresh process has no torch yet"
        cuda = SimpleNamespace(
            is_available=lambda: True, device_count=lambda: 2,
            set_per_process_memory_fraction=self._kept,
        )
        sys.modules["torch"] = SimpleNamespace(cuda=cuda)

    def _kept(self, fraction: float, device: int) -> None:
        with open(f"{self._told}/{os.getpid()}", "a") as file:
            file.write(f"{device} {fraction}\\n")
'''


@pytest.fixture
def lodger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the law where processes started from here find it; return where it writes."""
    site, told = tmp_path / "site", tmp_path / "told"
    facts = site / "waggle_lodger-1.dist-info"
    for folder in (facts, told):
        folder.mkdir(parents=True)
    (site / "waggle_lodger.py").write_text(PACKAGE)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: waggle-lodger\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[waggle.laws]\nlodger = waggle_lodger:Lodger\n")
    monkeypatch.syspath_prepend(site)
    # What is installed is looked up once in a process.
    fresh = plugins._installed.__wrapped__
    monkeypatch.setattr(plugins, "_installed", fresh)
    monkeypatch.delenv(sharing.SHARE, raising=False)
    return told


def test_every_lane_keeps_to_its_part_of_every_gpu(lodger: Path, tmp_path: Path) -> None:
    assert lanes.START == "spawn"
    cells = [msgspec.structs.replace(c, law_options={"told": str(lodger)}) for c in plan("lodger")]
    assert run_plan(cells, tmp_path / "lanes", Inline(), processes=2, width=8) == (4, 0, 0)
    told = {path.name: path.read_text() for path in lodger.iterdir()}
    part = (1 - sharing.SPARED) / 2
    assert len(told) == 2 and str(os.getpid()) not in told
    assert set(told.values()) == {f"0 {part}\n1 {part}\n"}
    run_plan(plan(), tmp_path / "alone", Inline())
    assert numbers(read_rows(tmp_path / "lanes")) == numbers(read_rows(tmp_path / "alone"))


def test_a_bad_share_of_the_gpu_is_said_before_lanes_start(
    lodger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sharing.SHARE, "half")
    cells = [msgspec.structs.replace(c, law_options={"told": str(lodger)}) for c in plan("lodger")]
    with pytest.raises(ConfigError, match="WAGGLE_GPU_SHARE='half': set it to a part"):
        run_plan(cells, tmp_path / "lanes", Inline(), processes=2)
    assert not list(lodger.iterdir())
