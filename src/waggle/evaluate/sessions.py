"""What playing cost: one line per law and call of `waggle eval`, beside the rows.

A report prints them, so that a table says by which command, where and how fast it was made.
Invariant: nothing here enters a score.
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
    """The episodes of one law in one call."""

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
    """Write a session down."""
    with (folder / FILE).open("ab") as file:
        file.write(msgspec.json.encode(session) + b"\n")


def read(folder: Path) -> list[Session]:
    """Return the sessions of a run directory; what cannot be read is no session."""
    try:
        lines = (folder / FILE).read_bytes().splitlines()
    except OSError:
        return []
    decode = msgspec.json.Decoder(Session).decode
    found = []
    for line in lines:
        try:
            found.append(decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return found


def carry(source: Path, target: Path, left: Collection[str] = ()) -> None:
    """Write sessions of one run directory down in another, each once, but of methods left behind.

    A session goes along unless all of its methods stay: what it calls a method may be the name in
    a run that was merged there before.
    """
    known = set(read(target))
    for session in read(source):
        if session not in known and not set(session.methods) <= set(left):
            append(target, session)


def command_line() -> str:
    """Return the command as it was typed, the program and folders elsewhere by their bare names."""
    name = Path(sys.argv[0]).stem
    return plain(" ".join(["waggle" if name == "__main__" else name, *sys.argv[1:]]))


def plain(command: str) -> str:
    """Return a command without what only tells where it was typed: programs' and absolute paths."""
    words = command.split(" ")
    name = "waggle" if words[0].startswith("__main__") else words[0]
    rest = [
        Path(word).name if word.startswith("/") and len(word) > 1 else word for word in words[1:]
    ]
    return " ".join([name, *rest])


def now() -> str:
    """Return the present second."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


def machine() -> str:
    """Say what this machine is: processor kind, cores, GPU if the driver names one."""
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
