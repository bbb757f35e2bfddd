"""Tidy rows: one JSON line per finished cell, appended whole, read back with distrust.

A row holds what tables need, so a report never runs a model again; where records were kept, the
runner measures the same rows from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from waggle import plugins
from waggle.core.errors import ConfigError, RecordError
from waggle.core.record import EpisodeRecord
from waggle.evaluate.plan import Cell
from waggle.evaluate.reorganization import course

FILE = "rows.jsonl"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One finished episode."""

    cell: str
    method: str
    substrate: str
    task: str
    n: int
    seed: int
    rounds: int
    shock: bool
    options: Mapping[str, Any]
    scores: Mapping[str, float]
    metrics: Mapping[str, float | None]
    counters: Mapping[str, int]
    course: Mapping[str, Sequence[float]] = {}
    """Round by round, where counterevidence was injected (see `evaluate.reorganization`)."""
    error: str = ""
    """Why the cell failed; its numbers are then empty."""


def row_of(cell: Cell, episode: EpisodeRecord) -> Row:
    """Measure one episode with every registered metric."""
    case = cell.case
    return Row(
        cell=cell.id,
        method=cell.method,
        substrate=case.substrate,
        task=case.task,
        n=case.n,
        seed=case.seed,
        rounds=episode.header.rounds,
        shock=case.shock,
        options=case.options,
        scores=episode.footer.scores,
        metrics={name: plugins.get_metric(name)(episode) for name in plugins.names("metric")},
        counters=episode.footer.counters,
        course=course(episode),
    )


def failed_row(cell: Cell, reason: str) -> Row:
    """Return the row of a cell that could not be played."""
    case = cell.case
    return Row(
        cell=cell.id, method=cell.method, substrate=case.substrate, task=case.task, n=case.n,
        seed=case.seed, rounds=0, shock=case.shock, options=case.options, scores={}, metrics={},
        counters={}, error=reason,
    )  # fmt: skip


class RowFile:
    """The rows of one run directory, to which finished cells are appended."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _drop_cut_line(self.path)
            self._file = self.path.open("ab")
        except OSError as error:
            raise ConfigError(
                f"cannot write to {folder} ({error.strerror}); choose another --out"
            ) from None

    def append(self, row: Row) -> None:
        """Append one row and make it durable."""
        self._file.write(msgspec.json.encode(row) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _drop_cut_line(path: Path) -> None:
    """Remove a last line that an interrupted run left unfinished."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) != len(data):
        path.write_bytes(whole)


def read_rows(folder: Path) -> list[Row]:
    """Read the rows of a run directory; the last row of a cell and method counts.

    Raises:
        RecordError: if there are none, or a line is not a row.
    """
    path = folder / FILE
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RecordError(
            f"cannot read {path} ({error.strerror}); run `waggle eval` first"
        ) from None
    return list(_latest(path, lines[:-1]).values())


def _latest(path: Path, lines: Iterable[bytes]) -> dict[tuple[str, str], Row]:
    decode = msgspec.json.Decoder(Row).decode
    found: dict[tuple[str, str], Row] = {}
    for number, line in enumerate(lines, 1):
        try:
            row = decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = str(error).splitlines()[0][:120]
            raise RecordError(f"{path}: line {number} is no row ({reason}); remove it") from None
        found[row.method, row.cell] = row
    return found
