"""Runs that are killed and records that are damaged: no row is lost, no damage is a traceback."""

from __future__ import annotations

import gzip
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.hostile.tally import Tally
from waggle.core.errors import WaggleError
from waggle.core.protocols import Case
from waggle.evaluate.episodes import RecordFolder, open_engine
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import FILE, Row, read_rows
from waggle.laws.heuristic import Heuristic
from waggle.runtime.recorder import Memory
from waggle.runtime.records import read

RECIPE = """
title = "killed"
keep = true
[methods.heuristic]
law = "heuristic"
[[blocks]]
methods = ["heuristic"]
tasks = ["silo/I-01", "beacon/beacon"]
n = [16]
seeds = { start = 10000, count = 30 }
"""


def plain(rows: list[Row]) -> list[bytes]:
    return sorted(msgspec.json.encode(row, order="sorted") for row in rows)


@pytest.mark.slow
def test_a_killed_eval_is_resumed_to_the_same_rows(tmp_path: Path, tally: Tally) -> None:
    recipe, run = tmp_path / "recipe.toml", tmp_path / "run"
    recipe.write_text(RECIPE)

    def command(out: Path) -> list[str]:
        return [sys.executable, "-m", "waggle", "eval", str(recipe), "--executor", "inline",
                "--out", str(out)]  # fmt: skip

    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True)
    want = plain(read_rows(tmp_path / "whole"))
    rng, kills = random.Random(3), 0
    for known in range(0, 60, 6):
        with subprocess.Popen(
            command(run), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as child:
            # Killed while it plays: after some rows, at no particular point.
            while child.poll() is None and _lines(run / FILE) < known + rng.randrange(1, 5):
                time.sleep(0.002)
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                kills += 1
    done = subprocess.run(command(run), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert plain(read_rows(run)) == want and kills >= 5
    assert not list((run / "records").glob(".*.partial"))
    tally.note("eval: kill -9", "resumed to the same rows", kills)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_damaged_record_is_no_traceback(tmp_path: Path, tally: Tally) -> None:
    cell = Cell(
        "m", "heuristic", {}, Case("beacon", "beacon", 6, 10_000, 4), "shuffled", "sync", {}, {}
    )
    memory = Memory()
    open_engine(cell, Heuristic(), memory).play()
    RecordFolder(tmp_path).write(cell, memory.record())
    (path,) = tmp_path.glob("*.gz")
    whole = path.read_bytes()
    unfolded = gzip.decompress(whole)
    rng, refused = random.Random(5), 0
    for number in range(400):
        data = bytearray(whole if number % 2 else unfolded)
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(bytes(data) if number % 2 else gzip.compress(bytes(data), 1))
        try:
            read(path)
        except WaggleError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 200
    tally.note("Record: bytes changed or cut", "one line, or still a record", 400)
