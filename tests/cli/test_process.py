"""The real command in a real process: exit codes, streams, pipes, a terminal-less run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def waggle(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "waggle", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_run_and_replay(tmp_path: Path) -> None:
    ran = waggle("run", "beacon", "-n", 16, "--shock", "--engine", "event", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    record = ran.stdout.splitlines()[-1].removeprefix("record: ").strip()
    assert record.startswith("runs/") and (tmp_path / record).is_file()
    assert waggle("replay", record, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("words", [["run", "nothing"], ["run", "beacon", "-n", "0"], ["fly"]])
def test_mistakes_have_exit_code_2_and_no_traceback(tmp_path: Path, words: list[str]) -> None:
    done = waggle(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("waggle: ")


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m waggle list | head -n 1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "Substrates" and done.stderr == ""
