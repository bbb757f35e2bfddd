"""The log of runs: one line per call of `waggle eval` and group of laws, beside the rows.

A report prints them, so that a table shows the command, machine and time that produced it. Nothing
here affects a score.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import msgspec

FILE = "sessions.jsonl"


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The episodes that one call played."""

    command: str
    started: str
    """UTC, to the second."""
    machine: str
    law: str
    methods: tuple[str, ...]
    executor: str
    episodes: int
    failed: int
    updates: int
    """Local updates, each one decision of the law."""
    seconds: float
    """Wall-clock time, including the loading of weights."""


def append(folder: Path, session: Session) -> None:
    """Append a session to those of a run directory."""
    with (folder / FILE).open("ab") as file:
        file.write(msgspec.json.encode(session) + b"\n")


def read(folder: Path) -> list[Session]:
    """Return the sessions of a run directory; skip invalid lines."""
    try:
        lines = (folder / FILE).read_bytes().splitlines()
    except OSError:
        return []
    decode = msgspec.json.Decoder(Session).decode
    found = []
    for line in lines:
        try:
            found.append(decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return found


def carry(source: Path, target: Path, left: Collection[str] = ()) -> None:
    """Copy the sessions of one run directory to another, each once, without those of `left`.

    A session is left out only if all of its methods are in `left`: it may use the name that a
    method had in a run that was merged there before.
    """
    known = set(read(target))
    for session in read(source):
        if session not in known and not set(session.methods) <= set(left):
            append(target, session)


def command_line() -> str:
    """Return the command line of this process in the form that tables print."""
    name = Path(sys.argv[0]).stem
    return plain(" ".join(["waggle" if name == "__main__" else name, *sys.argv[1:]]))


def plain(command: str) -> str:
    """Return a command without the path of its program; absolute paths keep their last part."""
    words = command.split(" ")
    name = "waggle" if words[0].startswith("__main__") else words[0]
    rest = [
        Path(word).name if word.startswith("/") and len(word) > 1 else word for word in words[1:]
    ]
    return " ".join([name, *rest])


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


def machine() -> str:
    """Describe this machine: processor type, cores, and the GPUs that the driver lists."""
    return ", ".join([f"{platform.machine()}, {os.cpu_count()} cores", *_gpus()])


def _gpus() -> list[str]:
    found = []
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        found += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return found
