"""Live files: plain JSON lines next to the future record file, for viewing a running episode.

A record file is compressed and gets its name only when complete. An episode that can be viewed
while it runs also writes this file, which is readable after every round and removed at the end.
Worlds with a map add a line with the map before every round. A full disk ends the live file, not
the episode.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec

from waggle.core.protocols import World
from waggle.core.record import Footer, Header, RoundRecord

MAX_BYTES = 1 << 30
"""Maximum size of the file; a longer episode can be viewed when it is finished."""
_NAME = re.compile(r"\.(.+)\.live\.[0-9]{1,9}\.partial")
_encoder = msgspec.json.Encoder()


class Place(msgspec.Struct, frozen=True, tag="place", tag_field="kind"):
    """The map of a world and the cell of every agent on it, row and column."""

    map: list[str]
    cells: list[tuple[int, int]]


def place_of(world: World) -> Place:
    """Return the map of a world that has the method `places`."""
    rows = [row.replace(" ", "") for row in world.render().splitlines()]
    return Place(rows, [(int(i), int(j)) for i, j in world.places()])  # type: ignore[attr-defined]


def live_path(path: Path) -> Path:
    """Return the path of this process's live file; a later process removes a leftover one."""
    return path.with_name(f".{path.name}.live.{os.getpid()}.partial")


def record_of(name: str) -> str | None:
    """Return the name of the record that a live file belongs to; None for other file names."""
    found = _NAME.fullmatch(name)
    return None if found is None else found[1]


class LiveFile:
    """A sink that writes a live file; as a context manager it removes the file at the end."""

    def __init__(self, path: Path, world: World) -> None:
        """Start an empty file, given the path of the future record and the world that is played."""
        self._path, self._world = live_path(path), world
        self._left = MAX_BYTES
        self._mapped = hasattr(world, "places")
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
            self._path.touch()

    def __enter__(self) -> LiveFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._path.unlink(missing_ok=True)

    def _write(self, *entries: Header | RoundRecord | Place) -> None:
        data = b"".join(_encoder.encode(entry) + b"\n" for entry in entries)
        self._left -= len(data)
        if self._left < 0:
            return
        try:
            with open(self._path, "ab", buffering=0) as file:
                file.write(data)
        except OSError:
            self._left = 0

    def header(self, header: Header) -> None:
        """Start the record."""
        self._write(header)

    def round(self, entry: RoundRecord) -> None:
        """Append one round, after the current map if there is one."""
        self._write(*((place_of(self._world), entry) if self._mapped else (entry,)))

    def footer(self, footer: Footer) -> None:
        """Write nothing: the complete record is about to be available."""
