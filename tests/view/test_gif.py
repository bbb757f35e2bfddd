"""Moving pictures: which moments are taken, and what a file of them holds."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageSequence

import waggle
from waggle.cli.main import main
from waggle.core.errors import WaggleError
from waggle.view import chromium, gif

needs_browser = pytest.mark.skipif(chromium.PROGRAM is None, reason="no chromium on this machine")


@pytest.mark.parametrize("length", [1, 2, 18, 40, 159, 160, 161, 1000, 100_000])
def test_moments_are_in_order_and_bounded(length: int) -> None:
    found = gif.schedule(length, length // 2)
    moments = [moment for moment, _ in found]
    assert moments == sorted(moments) and len(set(moments)) == len(moments) <= gif.MAX_FRAMES
    assert 0 <= moments[0] < length and length - 1 <= moments[-1] < length
    assert sum(time for _, time in found) < 45_000, "seconds that a reader waits"


def test_the_injection_and_the_end_are_seen_for_longer() -> None:
    found = gif.schedule(10, 4)
    usual = found[0][1]
    longer = [moment for moment, time in found if time > usual]
    assert [int(moment) for moment in longer] == [4, 9]


def test_fewer_pictures_take_the_same_time() -> None:
    shots = [Image.new("RGB", (2, 2), (shade, 0, 0)) for shade in range(5)]
    kept, times = gif._thinned(shots, [10, 20, 30, 40, 500])
    assert kept == [shots[0], shots[2], shots[4]] and times == [30, 70, 500]


@needs_browser
@pytest.mark.parametrize(
    "task", ["beacon", pytest.param("pursuit", marks=pytest.mark.slow)]
)  # a graph and a map
def test_a_record_becomes_a_moving_picture(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "a&b +%20#.jsonl.gz"  # as a page's address would not hold it
    waggle.run(task, n=8, seed=10_003, law="expert", rounds=2).save(record)
    assert main(["gif", str(record), "--width", "320"]) == 0
    assert "a&b +%20#.gif: 12 frames" in capsys.readouterr().out
    with Image.open(tmp_path / "a&b +%20#.gif") as shown:
        assert shown.width == 320 and 200 < shown.height <= 640 and shown.info["loop"] == 0
        frames = [frame.convert("RGB") for frame in ImageSequence.all_frames(shown)]
    first, last = frames[0], frames[-1]
    assert 1 < len(frames) <= 12, "equal ones may be one"
    assert first.tobytes() != last.tobytes()
    assert len(first.getcolors(1 << 20) or ()) > 8, "not a blank page"


def test_what_cannot_be_drawn_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "a.jsonl.gz"
    waggle.run("beacon", n=4, seed=3, law="expert", rounds=2).save(record)
    (tmp_path / "cut.jsonl.gz").write_bytes(record.read_bytes()[:200])
    monkeypatch.setattr(chromium, "PROGRAM", None)
    for arguments, reason in (
        ([str(record), "--out", "a.mp4"], "ends in .gif, .png, .webp"),
        ([str(record), "--width", "10"], "--width must be"),
        ([str(tmp_path)], "name one record"),
        ([str(tmp_path / "cut.jsonl.gz")], "cut"),
        ([str(record)], "no Chromium or Chrome on this machine"),
    ):
        assert main(["gif", *arguments]) == 2
        said = capsys.readouterr().err
        assert reason in said and said.count("\n") == 1, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl.gz", "cut.jsonl.gz"]


def test_a_browser_that_does_not_start_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, begin = [], subprocess.Popen

    def popen(*given: Any, **options: Any) -> Any:
        started.append(begin(*given, **options))
        return started[-1]

    def pipe() -> tuple[int, int]:
        made = make()
        pipes.add(os.readlink(f"/proc/self/fd/{made[0]}"))
        return made

    pipes, make = set[str](), os.pipe
    monkeypatch.setattr(chromium, "PROGRAM", shutil.which("false"))
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(os, "pipe", pipe)
    with pytest.raises(WaggleError, match="the browser"):
        chromium.Chromium(tmp_path)
    assert started[0].returncode is not None
    left = {os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()}
    assert pipes and pipes.isdisjoint(name.rpartition("/")[2] for name in left)
