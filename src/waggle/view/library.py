"""A folder of records: the list of records, a summary of each, and the file for a listed name.

The list is read in pages, so that a folder of a thousand runs opens at once and only one page is
in memory. Only the first and the last line of a record are decoded.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import msgspec

from waggle.core.errors import ConfigError, RecordError, WaggleError
from waggle.core.record import Footer, Header
from waggle.runtime.live import record_of
from waggle.runtime.records import SUFFIX, entries, unfolded

MAX_RUNS = 5_000
"""Largest number of records that are listed."""
PAGE = 50
"""Records per page of the list."""
MAX_TEXT = 120
"""Longest name in characters."""
_TAIL = 1 << 16
"""Bytes at the end of a record in which its footer is searched."""
_UNFOLDED = 256 << 20
"""Bytes that a record may decompress to while its footer is searched."""
MAX_GROWING = 100
"""Largest number of records of running episodes that are listed."""
_header = msgspec.json.Decoder(Header)
_footer = msgspec.json.Decoder(Footer)


def cut(text: str, most: int = MAX_TEXT) -> str:
    """Return a text, truncated to at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


class Library:
    """The records below a folder, which is rescanned on every request, or a single record."""

    def __init__(self, place: Path, *, empty: bool = False) -> None:
        """Open a folder or a record file; `empty` allows a folder without records.

        Raises:
            ConfigError: if the place does not exist, or holds no record and `empty` is False.
        """
        if not place.exists():
            raise ConfigError(f"there is no {place}; name a record or a folder of records")
        self._alone = place.name if place.is_file() else None
        self.root = (place.parent if self._alone else place).resolve()
        self.names = [self._alone] if self._alone else []
        self._growing: dict[str, Path] = {}
        self.refresh()
        if not self.names and not empty:
            raise ConfigError(
                f"{place} holds no record (*{SUFFIX}); `waggle run` makes one, `waggle eval "
                "--keep` one for each cell"
            )

    def refresh(self) -> None:
        """Append new records to the list, after those already in it."""
        if self._alone:
            return
        known, found, growing = set(self.names), list[str](), dict[str, Path]()
        for folder, _, files in os.walk(self.root):
            for name in files:
                place = (Path(folder) / name).relative_to(self.root)
                if name.endswith(SUFFIX) and not name.startswith("."):
                    if (path := place.as_posix()) not in known:
                        found.append(path)
                elif (grown := record_of(name)) and len(growing) < MAX_GROWING:
                    growing[place.with_name(grown).as_posix()] = self.root / place
            if len(known) + len(found) >= MAX_RUNS:
                break
        self.names += sorted(found)[: MAX_RUNS - len(known)]
        self._growing = growing

    def growing(self, name: str) -> Path | None:
        """Return the file of a record whose episode is still running, else None."""
        path = self._growing.get(name)
        return path if path is not None and path.is_file() and not path.is_symlink() else None

    def path(self, name: str) -> Path:
        """Return the file of a listed record.

        Raises:
            RecordError: if the name is not listed, is a link out of the folder, or is not a regular
                file.
        """
        if name not in self.names:
            self.refresh()  # it may be new
        if name not in self.names:
            raise RecordError("there is no such record in this folder; reload the page")
        path = (self.root / name).resolve()
        if not self._alone and not path.is_relative_to(self.root):
            raise RecordError("the record is a link out of its folder; name its own folder")
        if path.exists() and not path.is_file():  # reading a pipe would block
            raise RecordError("the record is no file; remove it from the folder")
        return path

    def page(self, start: int) -> dict[str, Any]:
        """Return one page of the list, the number of records, and those of running episodes."""
        self.refresh()
        names = self.names[max(0, start) :][:PAGE]
        live = [row for name in sorted(self._growing) if (row := self._live_row(name))]
        return {
            "total": len(self.names), "runs": [self._row(name) for name in names], "live": live,
        }  # fmt: skip

    def _row(self, name: str) -> dict[str, Any]:
        if not _is_text(name):
            shown = os.fsencode(name).decode(errors="replace")
            return {"run": shown, "error": "the name of the file is no UTF-8; rename it"}
        try:
            path = self.path(name)
            header = next(entries(path), None)
            if not isinstance(header, Header):
                raise RecordError("it does not start with a record header")
            footer = last(path)
        except WaggleError as error:
            reason = str(error).replace(str(self.root) + os.sep, "")
            return {"run": name, "error": cut(reason, 300)}
        return {
            **_case(name, header), "rounds": footer.rounds, "score": footer.scores.get("score"),
        }  # fmt: skip

    def _live_row(self, name: str) -> dict[str, Any] | None:
        """Return the row of a growing record, or None if its header is missing or unreadable."""
        path = self.growing(name)
        if path is None or not _is_text(name):
            return None
        try:
            with open(path, "rb") as file:
                header = _header.decode(file.readline(_TAIL))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return {**_case(name, header), "rounds": header.rounds, "live": True}


def _is_text(name: str) -> bool:
    """Return whether a file name is valid UTF-8 text; file systems allow any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _case(name: str, header: Header) -> dict[str, Any]:
    case = header.case
    return {
        "run": name, "task": cut(task_of(header)), "law": cut(header.law), "n": case.n,
        "seed": str(case.seed), "shock": case.shock,
    }  # fmt: skip


def task_of(header: Header) -> str:
    """Return the name of the recorded task, prefixed by its substrate if the two differ."""
    case = header.case
    return case.task if case.task == case.substrate else f"{case.substrate}/{case.task}"


def last(path: Path) -> Footer:
    """Return the footer of a record without decoding its rounds.

    Raises:
        RecordError: if it has no footer, or decompresses to more than `_UNFOLDED` bytes.
    """
    tail, size = b"", 0
    try:
        for part in unfolded(path):
            tail, size = (tail + part)[-_TAIL:], size + len(part)
            if size > _UNFOLDED:
                raise RecordError("it is too large for the list")
        return _footer.decode(tail.rstrip(b"\n").rpartition(b"\n")[2])
    except (OSError, EOFError, zlib.error):
        raise RecordError(f"{path} is cut or not a gzipped record; run the case again") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RecordError(f"{path} has no footer: it was cut; run the case again") from None
