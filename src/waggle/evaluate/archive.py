"""Archives of results small enough for a repository: the rows of a run, compressed by method.

    waggle archive runs/primary results/primary
    waggle report results/primary

An archive is a run directory that no cells are played into: the recipe, one file of rows per
method, sessions, and the files that training and diagnosis wrote for the tables. Archiving again
after some methods were played again changes their files only. The same rows give the same bytes,
and a report of the archive equals the report of the run.
"""

from __future__ import annotations

import lzma
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from waggle.core.errors import ConfigError
from waggle.evaluate import factorial, sessions
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import PACKED, SUFFIX, Row, has_rows, read_rows
from waggle.shared_folders import sweep

COPIED = (factorial.FOLDER, "diagnoses")
"""Folders of JSON files that tables are made from, beside the rows."""


class ArchiveReport(NamedTuple):
    """Counts of what was archived."""

    rows: dict[str, int]
    """Number of rows by method."""
    left: int
    """Rows whose cells are not in the plan."""
    copied: int
    """Files that were copied unchanged."""


def archive(plan: Sequence[Cell], folder: Path, target: Path) -> ArchiveReport:
    """Compress the rows of a run that are in its plan; files of other methods stay.

    Failed rows are included, so that reports of the archive name them.

    Raises:
        ConfigError: if the target is a run directory.
        RecordError: if the run has no rows, or a line is not a row.
    """
    if has_rows(target):
        raise ConfigError(f"{target} is a run directory; name another folder for the archive")
    found = {row.key: row for row in read_rows(folder)}
    by_method: dict[str, list[Row]] = {}
    for cell in plan:
        row = found.get(cell.key)
        if row is not None:
            by_method.setdefault(cell.method, []).append(row)
    (target / PACKED).mkdir(parents=True, exist_ok=True)
    for method, rows in by_method.items():
        _pack(target / PACKED / f"{method}{SUFFIX}", rows)
    copied = sum(_copy(folder / name, target / name) for name in COPIED)
    copied += _copy(folder, target, factorial.SEARCH)
    sessions.carry(folder, target)
    counts = {method: len(rows) for method, rows in by_method.items()}
    return ArchiveReport(counts, len(found) - sum(counts.values()), copied)


def _pack(path: Path, rows: Sequence[Row]) -> None:
    """Write the file of a method's rows atomically."""
    text = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    sweep(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_bytes(lzma.compress(text, preset=9))
    os.replace(partial, path)


def _copy(source: Path, target: Path, pattern: str = "*.json") -> int:
    """Copy the JSON files of a folder and return their number."""
    files = sorted(source.glob(pattern))
    if files:
        target.mkdir(parents=True, exist_ok=True)
    for path in files:
        shutil.copyfile(path, target / path.name)
    return len(files)
