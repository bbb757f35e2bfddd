"""Rows that were played elsewhere, taken into a run directory.

    waggle eval recipes/tables/primary.toml --merge elsewhere/primary

A row is taken if its cell is in the plan and has no finished row here, with the record of its
episode where one was kept; rows of other plans are left out. Invariant: a cell that both have must
have come out alike, else nothing is taken from there.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from waggle.core.errors import RecordError
from waggle.evaluate import sessions
from waggle.evaluate.episodes import record_path
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import FILE, Row, RowFile, read_rows
from waggle.evaluate.runner import RECORDS


class Merged(NamedTuple):
    """What a merge did with the rows of one folder."""

    taken: int
    known: int
    foreign: int
    """Rows whose cells are not in the plan, or that failed."""


def merge(plan: Sequence[Cell], folder: Path, other: Path) -> Merged:
    """Take the rows of another run directory that the plan asks for.

    Raises:
        RecordError: if a cell that both have came out differently, naming it.
    """
    wanted = {(cell.method, cell.id): cell for cell in plan}
    here = {} if not (folder / FILE).exists() else _finished(folder)
    theirs = _finished(other)
    mine = {key: row for key, row in theirs.items() if key in wanted}
    known = mine.keys() & here.keys()
    for key in sorted(known):
        if not _alike(here[key], mine[key]):
            raise RecordError(
                f"{other}: cell {key[1]} of {key[0]} ({_name(mine[key])}) came out differently "
                f"here; play the method again with --again, or leave it out"
            )
    rows = RowFile(folder)
    for key in mine.keys() - known:
        _take_record(wanted[key], folder / RECORDS, other / RECORDS)
        rows.append(mine[key])
    rows.close()
    _take_sessions(folder, other)
    return Merged(len(mine) - len(known), len(known), len(theirs) - len(mine))


def _finished(folder: Path) -> dict[tuple[str, str], Row]:
    return {(row.method, row.cell): row for row in read_rows(folder) if not row.error}


def _alike(one: Row, two: Row) -> bool:
    """Whether two rows tell of one episode; model steps depend on what shared a batch."""
    counts = ({k: v for k, v in row.counters.items() if k != "model_steps"} for row in (one, two))
    return one.scores == two.scores and next(counts) == next(counts)


def _name(row: Row) -> str:
    return f"{row.substrate}/{row.task} N={row.n} seed {row.seed}"


def _take_record(cell: Cell, here: Path, there: Path) -> None:
    source, target = record_path(there, cell), record_path(here, cell)
    if source.is_file():
        here.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _take_sessions(folder: Path, other: Path) -> None:
    known = set(sessions.read(folder))
    for session in sessions.read(other):
        if session not in known:
            sessions.append(folder, session)
