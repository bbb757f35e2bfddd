"""The list of a run's episodes in the page, with links to the viewer for episodes with a record.

A record links to the address of `waggle view FOLDER` on this machine, or to an export of the viewer
in the folder `viewer` of the run, if there is one. The page holds the list as data and shows it in
parts.
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
"""Folder of a run that holds the exported viewer, if there is one."""
ADDRESS = "http://127.0.0.1:8010/"
"""The default address of `waggle view`."""
MOST = 20_000
"""Largest number of episodes listed in a page."""


def episodes(rows: Sequence[Row], recipe: Recipe, folder: Path) -> dict[str, Any] | None:
    """Return the list of episodes as the page's script reads it; None if there are no rows."""
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
    """Return the task name with rounds, options and late counterevidence."""
    more = [unit(row).options, "late counterevidence" * row.shock]
    name = row.task if row.task == row.substrate else task_of(row)
    return ", ".join([name, f"{row.rounds} rounds", *filter(None, more)])


def _hint(folder: Path, exported: bool) -> str:
    """Return a hint on how to make the links to records work."""
    if exported:
        return f"Records open in the exported viewer, the folder {VIEWER} beside this page."
    return (
        f"Records open in the viewer while `waggle view {folder}` runs. After `waggle view {folder}"
        f" --export {folder / VIEWER}` a report links to that copy instead."
    )


def script(listed: dict[str, Any]) -> str:
    """Return data as a script element, escaped so that no string in it can close the element."""
    text = msgspec.json.encode(listed).decode().replace("<", r"\u003c")
    return f"<script type='application/json' id='episodes'>{text}</script>"
