"""Single episodes of a run: a list in the page, with a way into the viewer where a record is kept.

A record is linked where `waggle view FOLDER` shows it on this machine, or where an export of the
viewer lies in the folder `viewer` of the run. The page holds the list as data, shown in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from waggle.evaluate.episodes import RECORDS
from waggle.evaluate.plan import Recipe
from waggle.evaluate.rows import Row
from waggle.report.rows import label, task_of, unit
from waggle.runtime.records import SUFFIX

VIEWER = "viewer"
"""Folder of a run that holds the exported viewer, where there is one."""
ADDRESS = "http://127.0.0.1:8010/"
"""Where `waggle view` answers unless it is told otherwise."""
MOST = 20_000
"""Episodes of one page."""


def episodes(rows: Sequence[Row], recipe: Recipe, folder: Path) -> dict[str, Any] | None:
    """Return the list of episodes as the script of the page reads it; None where there are none."""
    if not rows:
        return None
    kept = {path.name for path in (folder / RECORDS).glob(f"*{SUFFIX}")}
    exported = (folder / VIEWER / "index.html").exists()
    listed = []
    for row in rows[:MOST]:
        name = f"{row.method}_{row.cell}{SUFFIX}"
        listed.append(
            (label(recipe, row.method), _task(row), row.n, str(row.seed), row.metrics.get("score"),
             row.metrics.get("messages"), f"{RECORDS}/{name}" if name in kept else "")
        )  # fmt: skip
    return {
        "total": len(rows),
        "viewer": f"{VIEWER}/index.html" if exported else ADDRESS if kept else "",
        "hint": _hint(folder, exported) if kept else "",
        "rows": listed,
    }


def _task(row: Row) -> str:
    """Name the task with all that makes its case another one."""
    more = [unit(row)[2], "late counterevidence" * row.shock]
    name = row.task if row.task == row.substrate else task_of(row)
    return ", ".join([name, f"{row.rounds} rounds", *filter(None, more)])


def _hint(folder: Path, exported: bool) -> str:
    """Say how the links lead somewhere."""
    if exported:
        return f"Records open in the exported viewer, the folder {VIEWER} beside this page."
    return (
        f"Records open in the viewer while `waggle view {folder}` runs. After `waggle view {folder}"
        f" --export {folder / VIEWER}` a report links to that copy instead."
    )


def script(listed: dict[str, Any]) -> str:
    """Return data as a script element that no string of it can end."""
    text = msgspec.json.encode(listed).decode().replace("<", r"\u003c")
    return f"<script type='application/json' id='episodes'>{text}</script>"
