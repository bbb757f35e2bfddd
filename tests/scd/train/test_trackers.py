"""Metrics always go to `metrics.jsonl`, and to one tracker more by its name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from signal import SIG_IGN, SIGXFSZ, signal
from types import ModuleType
from typing import Any

import pytest

from waggle.core.errors import ConfigError
from waggle.scd.files import TrainError
from waggle.scd.train import trackers

TOLD = [(0, {"nll": 2.0}), (3, {"nll": 1.0, "validation.nll": 1.5})]


class Board(ModuleType):
    """A library as trackers use it: notes what it is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.told: list[Any] = []

    def init(self, **names: str) -> None:
        self.told.append(names)

    def log(self, values: dict[str, float]) -> None:
        self.told.append(values)

    def finish(self) -> None:
        self.told.append("finished")


def told(name: str, folder: Path) -> list[dict[str, float]]:
    """Tell a tracker of some updates; return what `metrics.jsonl` holds afterwards."""
    made = trackers.make(name, folder, "run-7", 0)
    for update, values in TOLD:
        for tracker in made:
            tracker.log(update, values)
    for tracker in made:
        tracker.close()
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_runs_are_named_told_and_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    board = Board(name)
    monkeypatch.setitem(sys.modules, name, board)
    kept = told(name, tmp_path)
    assert kept == [{"update": update, **values} for update, values in TOLD]
    assert board.told == [{"project": "waggle", "name": "run-7"}, *kept, "finished"]


def test_tensorboard_has_every_value_at_its_update(tmp_path: Path) -> None:
    reason = "tensorboard is not installed"
    reading = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason=reason
    )
    told("tensorboard", tmp_path)
    found = reading.EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [(e.step, e.value) for e in found.Scalars("nll")] == [(0, 2.0), (3, 1.0)]
    assert [(e.step, e.value) for e in found.Scalars("validation.nll")] == [(3, 1.5)]


@pytest.mark.parametrize("name", ["tensorboard", "trackio", "wandb"])
def test_a_tracker_that_is_not_installed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=f"pip install {name}"):
        trackers.make(name, tmp_path, "run-7", 0)


def test_a_tracker_nobody_knows_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tensorboard"):
        trackers.make("tensorbord", tmp_path, "run-7", 0)


def test_lines_of_updates_that_are_done_again_are_dropped(tmp_path: Path) -> None:
    told("none", tmp_path)
    with open(tmp_path / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"update": 4, "nl')  # a kill while it was written
    (again,) = trackers.make("none", tmp_path, "run-7", 2)
    again.close()
    left = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in left] == [0]


def test_a_full_disk_leaves_the_lines_that_were_there(tmp_path: Path) -> None:
    told("none", tmp_path)
    path = tmp_path / "metrics.jsonl"
    before = path.read_text()
    soft, hard = getrlimit(RLIMIT_FSIZE)
    ignored = signal(SIGXFSZ, SIG_IGN)
    setrlimit(RLIMIT_FSIZE, (8, hard))
    try:
        with pytest.raises(TrainError, match=r"cannot write .*metrics\.jsonl.*resume"):
            trackers.make("none", tmp_path, "run-7", 9)
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))
        signal(SIGXFSZ, ignored)
    assert path.read_text() == before
