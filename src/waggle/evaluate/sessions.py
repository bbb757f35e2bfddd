"""What playing cost: one line per call of `waggle eval` and group of laws, beside the rows.

A report prints them, so that a table says by which command, where and how fast it was made. Nothing
here enters a score.
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
    """Wall clock, the loading of weights included."""


def append(folder: Path, session: Session) -> None:
    """Append a session to those of a run directory."""
    with (folder / FILE).open("ab") as file:
        file.write(msgspec.json.encode(session) + b"\n")


def read(folder: Path) -> list[Session]:
    """Return the sessions of a run directory; lines that are none are skipped."""
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
    """Copy the sessions of one run directory to another, each once, except of methods left behind.

    A session stays behind only if all of its methods do: it may name a method by what a run called
    it that was merged there before.
    """
    known = set(read(target))
    for session in read(source):
        if session not in known and not set(session.methods) <= set(left):
            append(target, session)


def command_line() -> str:
    """Return the command of this process as a table may print it."""
    name = Path(sys.argv[0]).stem
    return plain(" ".join(["waggle" if name == "__main__" else name, *sys.argv[1:]]))


def plain(command: str) -> str:
    """Return a command without the path of its program, absolute paths by their last part."""
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
    """Describe this machine: kind of processor, cores, and the GPUs that the driver names."""
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
