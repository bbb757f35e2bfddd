"""`waggle eval --again`: play finished cells again and then replace their old rows.

The new rows are staged in a subfolder of the run directory, so that tables show the old rows until
all new ones are finished. They stay there if the call is interrupted, or if cells fail and there
are old rows to keep. The next call resumes from them, unless the weights of a law have changed. Its
plan may have other cells, so staged rows may also be of cells that it does not play.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from waggle.evaluate import sessions
from waggle.evaluate.episodes import RECORDS
from waggle.evaluate.executors import Executor
from waggle.evaluate.plan import Cell, Key
from waggle.evaluate.rows import Row, RowFile, alike, finished_rows, read_rows
from waggle.evaluate.runner import Outcome, run_plan
from waggle.evaluate.stale import stale_methods
from waggle.runtime.records import SUFFIX

FOLDER = "again"
"""The subfolder of staged rows, with their sessions and records."""


def play_again(
    plan: Sequence[Cell], folder: Path, executor: Executor, *, whole: Sequence[Cell] = (),
    width: int | None = None, **how: Any,
) -> Outcome:  # fmt: skip
    """Play the cells of a plan whether they are finished or not, and replace their rows.

    As long as some cells fail, finished rows stay, and the next call plays the failed cells again.

    Args:
        plan: the cells.
        folder: the run directory.
        executor: where episodes of ordinary laws are played.
        whole: the full plan that these cells are part of.
        width: requests per batch, as in `run_plan`.
        how: the other options of `run_plan`.
    """
    staged = folder / FOLDER
    if stale_methods(whole or plan, finished_rows(staged), width):
        shutil.rmtree(staged)
    outcome = run_plan(plan, staged, executor, width=width, **how)
    finished = finished_rows(folder)
    if outcome.failed and any(cell.key in finished for cell in plan):
        return outcome  # failures, e.g. of a dead endpoint, must not replace results
    _take_staged(staged, folder, finished)
    return outcome


def _take_staged(staged: Path, folder: Path, finished: Mapping[Key, Row]) -> None:
    """Move staged rows, sessions and records into the run directory; remove the staging folder.

    A failed row does not replace a finished one. Such a row is of an earlier call, for a cell that
    this one did not play: the caller keeps all rows staged if its own failures could replace any.
    """
    rows = RowFile(folder)
    try:
        for row in read_rows(staged):
            old = finished.get(row.key)
            if old is not None and row.error:
                continue
            if old is not None and not alike(old, row):  # the old record is of another episode
                (folder / RECORDS / f"{row.method}_{row.cell}{SUFFIX}").unlink(missing_ok=True)
            rows.append(row)
    finally:
        rows.close()
    sessions.carry(staged, folder)
    for record in (staged / RECORDS).glob("*"):
        (folder / RECORDS).mkdir(exist_ok=True)
        record.replace(folder / RECORDS / record.name)
    shutil.rmtree(staged)
