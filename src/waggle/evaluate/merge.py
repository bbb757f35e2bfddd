"""Rows that were played elsewhere, taken into a run directory.

    waggle eval recipes/tables/primary.toml --merge elsewhere/primary

A row is taken if its cell is in the plan and has no finished row here, with the record of its
episode where one was kept; rows of other plans are left out. Invariant: a cell that both have must
have come out alike, else nothing is taken from there, unless what is here is to be replaced:

    waggle eval recipes/tables/primary.toml --methods nano --again --merge elsewhere/primary
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
from waggle.evaluate.rows import FILE, Row, RowFile, alike, read_rows
from waggle.evaluate.runner import RECORDS


class Merged(NamedTuple):
    """What a merge did with the rows of one folder."""

    taken: int
    known: int
    foreign: int
    """Rows whose cells are not in the plan, or that failed."""
    older: int = 0
    """Rows that stay although others of their method were replaced: perhaps of an older law."""


def merge(plan: Sequence[Cell], folder: Path, other: Path, *, again: bool = False) -> Merged:
    """Take the rows of another run directory that the plan asks for, in the order of the plan.

    Args:
        plan: the cells.
        folder: the run directory that takes.
        other: the run directory that gives.
        again: whether rows that came out differently replace those that are here.

    Raises:
        RecordError: if a cell that both have came out differently, naming it.
    """
    wanted = {(cell.method, cell.id): cell for cell in plan}
    here = {} if not (folder / FILE).exists() else _finished(folder)
    theirs = _finished(other)
    mine = {key: row for key, row in theirs.items() if key in wanted}
    both = [key for key in wanted if key in mine and key in here]
    differ = [key for key in both if not alike(here[key], mine[key])]
    if differ and not again:
        raise RecordError(
            f"{other}: {len(differ)} of {len(both)} cells that both have came out differently: "
            f"{differ[0][1]} of {differ[0][0]} ({_name(mine[differ[0]])}); replace them here with "
            "--again --merge, or leave the method out with --methods"
        )
    known = set(both) - set(differ)
    rows = RowFile(folder)
    for key in wanted:
        if key in mine and key not in known:
            if key in here:  # the record of the episode that is replaced
                record_path(folder / RECORDS, wanted[key]).unlink(missing_ok=True)
            _take_record(wanted[key], folder / RECORDS, other / RECORDS)
            rows.append(mine[key])
    rows.close()
    _take_sessions(folder, other)
    changed = {method for method, _ in differ}
    older = sum(key[0] in changed and key in wanted and key not in mine for key in here)
    return Merged(len(mine) - len(known), len(known), len(theirs) - len(mine), older)


def _finished(folder: Path) -> dict[tuple[str, str], Row]:
    return {(row.method, row.cell): row for row in read_rows(folder) if not row.error}


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
