"""Forged rows, flipped bits, full disks, dead runs and two runs in one folder."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.hostile.tally import Tally
from waggle.cli import console
from waggle.core.errors import ConfigError, RecordError
from waggle.core.protocols import Case
from waggle.evaluate.executors import Inline
from waggle.evaluate.merge import merge
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import FILE, RowFile, read_rows
from waggle.evaluate.runner import run_plan
from waggle.shared_folders import sweep


def cells(count: int = 12) -> list[Cell]:
    return [
        Cell("m", "heuristic", {}, Case("beacon", "beacon", 6, seed, 4), "shuffled", "sync", {}, {})
        for seed in range(10_000, 10_000 + count)
    ]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("forged", [{"scores": {"score": 999.0}}, {"n": 7}, {"counters": {}}])
def test_a_forged_row_is_not_merged(
    forged: dict[str, object], keep: bool, tmp_path: Path, tally: Tally
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    plan = cells(4 if "counters" in forged else 12)
    run_plan(plan, there, Inline(), keep=keep)
    *rows, last = read_rows(there)
    last = msgspec.structs.replace(last, **forged)
    (there / FILE).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in [*rows, last]))
    with pytest.raises(RecordError, match="not what its cell gives"):
        merge(plan, here, there)
    assert not here.exists()
    tally.note("Merge: a forged row", "refused in one line")


def test_a_second_run_in_one_folder_waits(tmp_path: Path, tally: Tally) -> None:
    first = RowFile(tmp_path)
    with pytest.raises(ConfigError, match="another `waggle eval`"):
        run_plan(cells(), tmp_path, Inline())
    first.close()
    assert run_plan(cells(), tmp_path, Inline()).played == 12
    tally.note("Two evals in one folder", "the second refused in one line")


def test_what_dead_runs_left_is_swept(tmp_path: Path, tally: Tally) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, check=True)  # fmt: skip
    dead, living = int(gone.stdout), os.getpid()
    for process in (dead, living):
        (tmp_path / f".x.jsonl.gz.{process}.partial").write_bytes(b"x")
        (tmp_path / f"nano.partial-{process}").mkdir()
    (tmp_path / ".mine.partial").write_bytes(b"x")
    assert sweep(tmp_path) == 2
    left = {".mine.partial", f".x.jsonl.gz.{living}.partial", f"nano.partial-{living}"}
    assert {path.name for path in tmp_path.iterdir()} == left
    tally.note("Unfinished files of dead runs", "swept", 2)


def test_escapes_are_shown_and_not_sent(capsys: pytest.CaptureFixture[str], tally: Tally) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\r\u202etxt"
    console.say(evil)
    console.note(evil)
    console.table("t", ["name", "x"], [[evil, 1]])
    said = "".join(capsys.readouterr())
    assert not set(evil) & {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(said)
    assert said.count("\\x1b]0;owned\\x07") == 3
    tally.note("Terminal escapes in names", "shown, not sent", 3)


RECIPE = """
title = "small"
keep = true
[methods.heuristic]
law = "heuristic"
[[blocks]]
methods = ["heuristic"]
tasks = ["silo/I-01"]
n = [8]
seeds = { start = 10000, count = 3 }
"""


@pytest.mark.parametrize(
    "room", [2_000, *(pytest.param(room, marks=pytest.mark.slow) for room in (0, 100, 500))]
)
def test_a_full_disk_is_one_line(room: int, tmp_path: Path, tally: Tally) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    command = [sys.executable, "-m", "waggle", "eval", str(tmp_path / "recipe.toml"),
               "--executor", "inline", "--out", str(tmp_path / "run")]  # fmt: skip

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=fill, check=False)
    *notes, last = done.stderr.splitlines()
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr
    assert last.startswith(("waggle: ", "failed: ")) and "too large" in last
    assert all(line.startswith(("failed: ", "3 of", "1 of", "2 of")) for line in notes), notes
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert len(read_rows(tmp_path / "run")) == 3
    tally.note("Full disk during eval", "one line, no row lost")


def test_a_checkpoint_that_is_damaged_is_passed_over(tmp_path: Path, tally: Tally) -> None:
    torch = pytest.importorskip("torch")
    from waggle.scd.files import TrainError
    from waggle.scd.train.checkpoint import Checkpoints, Progress, load

    store = Checkpoints(tmp_path, {"seed": 0})
    for update in (1, 2):
        weights = {"w": torch.full((64,), float(update))}
        store.save(Progress(update, 0, 1.0), weights, {}, {"state": {}})
    first, second = (tmp_path / "checkpoints" / f"update-00000{k}" for k in (1, 2))
    flipped = bytearray((second / "trainable.safetensors").read_bytes())
    flipped[-1] ^= 1
    (second / "trainable.safetensors").write_bytes(flipped)
    with pytest.warns(UserWarning, match="update-000002 is damaged"):
        newest = store.newest()
    assert newest == first and load(newest).progress.update == 1
    state = json.loads((first / "state.json").read_text())
    state["progress"]["update"] = 10**9
    (first / "state.json").write_text(json.dumps(state))
    with pytest.warns(UserWarning, match="passed over"), pytest.raises(TrainError, match="all ch"):
        store.newest()
    tally.note("Checkpoint: flipped bit, update 10^9", "older one taken, or one line", 2)
