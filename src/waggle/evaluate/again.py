"""`waggle eval --again`: play finished cells again and then replace their old rows.

The new rows are written to a subfolder of the run directory, so that tables show the old rows until
all new ones are finished. An interrupted call resumes from that folder, unless the weights of a law
have changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from waggle.evaluate import sessions
from waggle.evaluate.episodes import RECORDS
from waggle.evaluate.executors import Executor
from waggle.evaluate.plan import Cell
from waggle.evaluate.resume import compare, stale_methods
from waggle.evaluate.rows import RowFile, alike, finished_rows, read_rows
from waggle.evaluate.runner import Outcome, run_plan
from waggle.runtime.records import SUFFIX

FOLDER = "again"


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
    place = folder / FOLDER
    if stale_methods(compare(whole or plan, finished_rows(place), width)):
        shutil.rmtree(place)
    outcome = run_plan(plan, place, executor, width=width, **how)
    here = finished_rows(folder)
    if outcome.failed and any(cell.key in here for cell in plan):
        return outcome  # failures, e.g. of a dead endpoint, must not replace results
    rows = RowFile(folder)
    for row in read_rows(place):
        before = here.get(row.key)
        if before is not None and row.error:
            continue  # left by an earlier call for other cells
        if before is not None and not alike(before, row):  # the old record is of another episode
            (folder / RECORDS / f"{row.method}_{row.cell}{SUFFIX}").unlink(missing_ok=True)
        rows.append(row)
    rows.close()
    sessions.carry(place, folder)
    for record in (place / RECORDS).glob("*"):
        (folder / RECORDS).mkdir(exist_ok=True)
        record.replace(folder / RECORDS / record.name)
    shutil.rmtree(place)
    return outcome
