"""Tidy rows: one JSON line per finished cell, appended as a whole and validated when read.

A row holds what tables need, so a report never runs a model; where records are kept, the runner
computes the same rows from them. An archive (`waggle.evaluate.archive`) holds its rows compressed,
one file for each method; it is read like a run directory and never appended to.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import IO, Annotated, Any, SupportsFloat, TypeAlias

import msgspec

from waggle import plugin_files, plugins
from waggle.core.errors import ContractError, RecordError, WaggleError
from waggle.core.record import EpisodeRecord, comparable
from waggle.evaluate.code import Part
from waggle.evaluate.plan import Cell, Key, Recipe, cells
from waggle.evaluate.reorganization import Course, course, sound
from waggle.runtime.records import memory_of
from waggle.shared_folders import locked

FILE = "rows.jsonl"
_WRITER = "another `waggle eval`"
PACKED, SUFFIX = "rows", ".jsonl.xz"
"""Folder and file suffix of the compressed rows of an archive."""
MAX_PACKED = 640 << 20
"""Maximum memory of an archive's rows in bytes; the largest archive takes sixty million."""
MAX_LINE = 4 << 20
"""Maximum length of a row in bytes; rows take a few thousand."""
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,64}$")]


class Row(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One finished episode; reports cache derived values on the object."""

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
    course: Course = {}
    """Series by round, if counterevidence was injected (see `evaluate.reorganization`)."""
    error: str = ""
    """Why the cell failed; the row then has no scores, but may have counters of its cost."""
    weights: Digest | msgspec.UnsetType = msgspec.UNSET
    """Digest of the weights that played it; absent for rules and in rows of early runs."""
    faults: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET
    """Metrics that failed, and why; they are None in `metrics`; the rest of the row is valid."""
    code: Mapping[Part, Digest] | msgspec.UnsetType = msgspec.UNSET
    """Digests of the plug-in files of its law and its world; absent for all others."""

    @property
    def key(self) -> Key:
        """The key of its cell: method and id."""
        return self.method, self.cell

    @property
    def digest(self) -> str:
        """The digest of its law: of the weights, else of the plug-in file; empty without both."""
        return self.weights or (self.code or {}).get("law", "")


def row_of(
    cell: Cell, episode: EpisodeRecord, weights: str = "", code: Mapping[Part, str] | None = None
) -> Row:
    """Measure one episode with every registered metric."""
    scores = episode.footer.scores
    metrics, faults = measure(episode, plugins.names("metric"))
    return Row(
        **_case(cell),
        rounds=episode.header.rounds,
        scores={name: _number(f"score {name!r}", value) for name, value in scores.items()},
        metrics=metrics,
        counters=episode.footer.counters,
        course=course(episode),
        weights=weights or msgspec.UNSET,
        faults=faults or msgspec.UNSET,
        code=code or msgspec.UNSET,
    )


def failed_row(cell: Cell, reason: str, counters: Mapping[str, int] | None = None) -> Row:
    """Return the row of a cell that could not be played or whose episode does not count."""
    return Row(
        **_case(cell), rounds=0, scores={}, metrics={}, counters=counters or {}, error=reason
    )


def _case(cell: Cell) -> dict[str, Any]:
    case = cell.case
    return {
        "cell": cell.id, "method": cell.method, "substrate": case.substrate, "task": case.task,
        "n": case.n, "seed": case.seed, "shock": case.shock, "options": case.options,
    }  # fmt: skip


def measure(
    episode: EpisodeRecord, names: Iterable[str]
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Compute the named metrics; return their values, and the errors of those that failed.

    A failed metric is None and does not affect the others.
    """
    found: dict[str, float | None] = {}
    faults: dict[str, str] = {}
    for name in names:
        try:
            value = plugins.get_metric(name)(episode)
            found[name] = None if value is None else _number(f"metric {name!r}", value)
        except plugin_files.FAULTS as error:
            found[name] = None
            faults[name] = (
                str(error) if isinstance(error, WaggleError) else plugin_files.raised(error)
            )
    return found, faults


def _number(name: str, value: object) -> float:
    """Return the number of a substrate or a metric as a float that a row can hold.

    Raises:
        ContractError: if it is not a finite number; the row could not be read back, and its run
            directory would be unusable.
    """
    if isinstance(value, SupportsFloat) and isfinite(value):
        return float(value)
    raise ContractError(f"{name} is {str(value)[:40]!r}; give a finite number, or None of a metric")


def alike(one: Row, two: Row) -> bool:
    """Return whether two rows are of one episode, whatever batches it was decoded in."""
    return one.scores == two.scores and comparable(one.counters) == comparable(two.counters)


class RowFile:
    """The rows of one run directory, to which finished cells are appended."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = locked(folder, _WRITER)
        _mend_last_line(self.path)
        self._file = self.path.open("ab")

    def append(self, row: Row) -> None:
        """Append one row and sync the file to disk."""
        self._file.write(msgspec.json.encode(row) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file and release the lock."""
        try:
            self._file.close()
        finally:
            self._lock.close()


def require_idle(folder: Path) -> None:
    """Refuse a run directory that another process is writing rows to."""
    if has_rows(folder):
        locked(folder, _WRITER).close()


def _mend_last_line(path: Path) -> None:
    """Remove an incomplete last line of an interrupted run, or add its missing line break.

    Earlier lines are not touched, so that no row is lost if this is interrupted as well.
    """
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MAX_LINE))
        last = file.read().rpartition(b"\n")[2]
        if last and _is_row(last):
            file.write(b"\n")
        elif last:
            file.truncate(size - len(last))


def has_rows(folder: Path) -> bool:
    """Return whether a folder holds rows that can be appended to."""
    return (folder / FILE).exists()


def packed(folder: Path) -> list[Path]:
    """Return the row files of an archive, sorted; empty if the folder is not an archive."""
    return sorted((folder / PACKED).glob(f"*{SUFFIX}"))


def finished_rows(folder: Path) -> dict[Key, Row]:
    """Return the rows of a run directory that did not fail; empty if nothing was played yet.

    Raises:
        RecordError: if a line is not a row, so that finished cells are not silently replayed.
    """
    return succeeded(folder) if has_rows(folder) else {}


def planned(recipe: Recipe, rows: Iterable[Row]) -> list[Cell]:
    """Return the cells of a recipe; tasks of a missing plug-in are taken from the rows."""
    return cells(recipe, [plugins.Task(row.substrate, row.task) for row in rows])


def succeeded(folder: Path) -> dict[Key, Row]:
    """Return the rows of a run directory or an archive that did not fail.

    Raises:
        RecordError: as `read_rows`.
    """
    return {row.key: row for row in read_rows(folder) if not row.error}


def read_rows(folder: Path, start: int = 0) -> list[Row]:
    """Read the rows of a run directory or an archive; the last row of each cell and method counts.

    Args:
        folder: the run directory.
        start: byte offset to start at, the end of a row.

    Raises:
        RecordError: if there are none, or a line is not a row.
    """
    found: dict[Key, Row] = {}
    room = MAX_PACKED
    for path in [folder / FILE] if has_rows(folder) else packed(folder) or [folder / FILE]:
        try:
            with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
                file.seek(start)
                room = _latest(path, file, found, room)
        except OSError as error:
            raise RecordError(
                f"cannot read {path} ({error.strerror}); run `waggle eval` first"
            ) from None
        except (lzma.LZMAError, EOFError) as error:
            raise RecordError(f"{path} is damaged ({error}); archive the run again") from None
    return list(found.values())


def _latest(path: Path, file: IO[bytes], found: dict[Key, Row], room: int) -> int:
    """Add the rows of a file to `found`; return the memory left for an archive's rows."""
    lines = iter(lambda: file.readline(MAX_LINE + 1), b"")
    for number, line in enumerate(lines, 1):
        room -= memory_of(line) if path.suffix == ".xz" else 0
        if room < 0:
            raise RecordError(
                f"{path} unfolds to over {MAX_PACKED >> 20} MiB; archive the run again"
            )
        if not line.strip():
            continue
        if not line.endswith(b"\n") and len(line) <= MAX_LINE and not _is_row(line):
            break  # an incomplete line of an interrupted run
        try:
            row = _decode(line)
        except ValueError as error:
            raise RecordError(
                f"{path}: line {number} is no row ({error}); remove that line, and `waggle eval` "
                "plays its cell again"
            ) from None
        found[row.key] = row
    return room


def _is_row(line: bytes) -> bool:
    """Return whether a last line without a line break is a complete row."""
    try:
        _decode(line)
    except ValueError:
        return False
    return True


_DECODER = msgspec.json.Decoder(Row)


def _decode(line: bytes) -> Row:
    """Return the row of a line.

    Raises:
        ValueError: if it is not a row, with a one-line reason.
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
