"""Tidy rows: one JSON line per finished cell, appended whole, read back with distrust.

A row holds what tables need, so a report never runs a model again; where records were kept, the
runner measures the same rows from them. An archive (`waggle.evaluate.archive`) holds its rows
packed, a file for each method; it is read like a run directory and never appended to.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import IO, Annotated, Any, SupportsFloat, TypeAlias

import msgspec

from waggle import plugins
from waggle.core.errors import ConfigError, ContractError, RecordError
from waggle.core.record import EpisodeRecord
from waggle.evaluate.plan import Cell
from waggle.evaluate.reorganization import course, sound

FILE = "rows.jsonl"
PACKED, SUFFIX = "rows", ".jsonl.xz"
"""Folder and endings of the packed rows of an archive."""
MAX_PACKED = 1 << 30
"""Bytes that a packed file may unfold to; a few hundred rows take one million."""
MAX_LINE = 16 << 20
"""Bytes of the longest row that is read; rows take a few thousand."""
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,64}$")]


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
    weights: Digest | msgspec.UnsetType = msgspec.UNSET
    """Digest of the weights that played it; not there for rules, and in rows of earlier runs."""

    @property
    def digest(self) -> str:
        """The digest of its weights, empty where the row does not say."""
        return self.weights or ""


def row_of(cell: Cell, episode: EpisodeRecord, weights: str = "") -> Row:
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
        scores={name: _number(f"score {name!r}", v) for name, v in episode.footer.scores.items()},
        metrics={name: _measure(name, episode) for name in plugins.names("metric")},
        counters=episode.footer.counters,
        course=course(episode),
        weights=weights or msgspec.UNSET,
    )


def _measure(name: str, episode: EpisodeRecord) -> float | None:
    value = plugins.get_metric(name)(episode)
    return None if value is None else _number(f"metric {name!r}", value)


def _number(name: str, value: object) -> float:
    """Return a number that a substrate or a metric gave, in a form that a row can hold.

    Raises:
        ContractError: if it is none; a row that cannot be read back would spoil its run directory.
    """
    if isinstance(value, SupportsFloat) and isfinite(value):
        return float(value)
    raise ContractError(f"{name} is {str(value)[:40]!r}; give a finite number, or None of a metric")


def failed_row(cell: Cell, reason: str) -> Row:
    """Return the row of a cell that could not be played."""
    case = cell.case
    return Row(
        cell=cell.id, method=cell.method, substrate=case.substrate, task=case.task, n=case.n,
        seed=case.seed, rounds=0, shock=case.shock, options=case.options, scores={}, metrics={},
        counters={}, error=reason,
    )  # fmt: skip


def alike(one: Row, two: Row) -> bool:
    """Whether two rows tell of one episode; model steps depend on what shared a batch."""
    counts = ({k: v for k, v in row.counters.items() if k != "model_steps"} for row in (one, two))
    return one.scores == two.scores and next(counts) == next(counts)


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
    """Remove a last line that an interrupted run left unfinished; end one that only lacks its end.

    Nothing before it is touched, so that no row is lost if this too is interrupted.
    """
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - MAX_LINE)
        file.seek(start)
        tail = file.read()
        last = tail[tail.rfind(b"\n") + 1 :]
        if last and _row_of_cut(last) is not None:
            file.write(b"\n")
        elif last:
            file.truncate(size - len(last))


def _row_of_cut(line: bytes) -> Row | None:
    """Return the row of a last line that has no end; None if it was cut."""
    try:
        return _decode(line)
    except ValueError:
        return None


def succeeded(folder: Path) -> dict[tuple[str, str], Row]:
    """Return the rows of a run directory or an archive that did not fail, by method and id.

    Raises:
        RecordError: as `read_rows`.
    """
    return {(row.method, row.cell): row for row in read_rows(folder) if not row.error}


def read_rows(folder: Path, start: int = 0) -> list[Row]:
    """Read the rows of a run directory; the last row of a cell and method counts.

    Args:
        folder: the run directory.
        start: byte at which to begin, the end of a row.

    Raises:
        RecordError: if there are none, or a line is not a row.
    """
    found: dict[tuple[str, str], Row] = {}
    for path in [folder / FILE] if has_rows(folder) else packed(folder) or [folder / FILE]:
        try:
            with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
                file.seek(start)
                found |= _latest(path, file)
        except OSError as error:
            raise RecordError(
                f"cannot read {path} ({error.strerror}); run `waggle eval` first"
            ) from None
        except (lzma.LZMAError, EOFError) as error:
            raise RecordError(f"{path} is damaged ({error}); archive the run again") from None
    return list(found.values())


def has_rows(folder: Path) -> bool:
    """Whether a folder holds rows that can be appended to."""
    return (folder / FILE).exists()


def packed(folder: Path) -> list[Path]:
    """Return the files of an archive, in order; none where the folder is no archive."""
    return sorted((folder / PACKED).glob(f"*{SUFFIX}"))


def _latest(path: Path, file: IO[bytes]) -> dict[tuple[str, str], Row]:
    found: dict[tuple[str, str], Row] = {}
    lines = iter(lambda: file.readline(MAX_LINE + 1), b"")
    for number, line in enumerate(lines, 1):
        if path.suffix == ".xz" and file.tell() > MAX_PACKED:
            raise RecordError(
                f"{path} unfolds to over {MAX_PACKED >> 20} MiB; archive the run again"
            )
        if not line.strip():
            continue
        whole = line.endswith(b"\n")
        if not whole and len(line) <= MAX_LINE and _row_of_cut(line) is None:
            break  # what an interrupted run was writing
        try:
            row = _decode(line)
        except ValueError as error:
            raise RecordError(
                f"{path}: line {number} is no row ({error}); remove that line, and `waggle eval` "
                "plays its cell again"
            ) from None
        found[row.method, row.cell] = row
    return found


_DECODER = msgspec.json.Decoder(Row)


def _decode(line: bytes) -> Row:
    """Return the row of a line.

    Raises:
        ValueError: why it is none, in one line.
    """
    if len(line) > MAX_LINE:
        raise ValueError(f"over {MAX_LINE >> 20} MiB long")
    try:
        row = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error).splitlines()[0][:120]) from None
    if row.course and not sound(row.course):
        raise ValueError("its course does not fit together")
    return row
