"""Command lines in processes of their own, with their peak memory and last words."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

GIGABYTE = 1_000_000_000


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    said: str
    """What it wrote to standard error."""
    peak: int
    """Bytes that it, or a process of its own, held at most."""


_SHIM = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:], stdout=subprocess.DEVNULL)
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""
"""A process takes over the peak of the one that starts it, so a small one starts it."""


def waggle(tokens: Sequence[str], stdin: bytes = b"") -> Ended:
    """Run one command line."""
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "peak"
        command = [sys.executable, "-c", _SHIM, str(note), sys.executable, "-m", "waggle", *tokens]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)
        peak = int(note.read_text()) * 1024
    return Ended(done.returncode, done.stderr.decode(errors="replace"), peak)


def one_line(ended: Ended, about: str) -> None:
    """Require a refusal: exit code 2, one line about it, no traceback, less than a gigabyte."""
    assert ended.code == 2, ended.said[-2000:]
    assert ended.said.count("\n") == 1 and ended.said.startswith("waggle: "), ended.said[-2000:]
    assert about in ended.said
    assert ended.peak < GIGABYTE
