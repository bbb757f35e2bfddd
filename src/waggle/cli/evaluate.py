"""`waggle eval RECIPE` and `waggle report DIR`: a plan of episodes, and its tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from waggle.cli import console
from waggle.core.errors import ConfigError
from waggle.evaluate import executors, plan
from waggle.evaluate.rows import Row
from waggle.evaluate.runner import rows_from_records, run_plan
from waggle.report import page

RECIPE = "recipe.toml"
"""The copy of the recipe in a run directory."""
Flag = Annotated[bool, Parameter(negative="")]


def evaluate(
    recipe: Path,
    /,
    *,
    out: Path | None = None,
    executor: Literal["inline", "process", "ray"] = "process",
    workers: int | None = None,
    keep: Flag = False,
    width: int = 256,
    json: Flag = False,
) -> int:
    """Run every unfinished cell of a recipe.

    Cells are method x task x N x seed, each with a stable id. A second call plays only what is
    missing or failed; an interrupted run loses no finished cell. Print the tables with
    `waggle report DIR`.

    Args:
        recipe: A TOML file as in `recipes/`.
        out: Run directory; `runs/NAME` of the recipe file if unset.
        executor: inline plays here, process in worker processes, ray on a Ray cluster. Laws that
            want large batches are always played here, many episodes side by side.
        workers: Worker processes; one per core if unset.
        keep: Keep the record of every episode beside its row.
        width: Requests per batch for laws that want large batches.
        json: Print one JSON object instead of text.
    """
    chosen = plan.load(recipe)
    cells = plan.cells(chosen)
    folder = out or Path("runs") / recipe.stem
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(recipe, folder / RECIPE)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {folder} ({error.strerror}); choose another --out"
        ) from None
    with _progress(quiet=json) as bar:
        job = bar.add_task(chosen.title, total=len(cells))

        def finished(row: Row) -> None:
            bar.update(job, advance=1, description=f"{row.method} {row.task} N={row.n}")

        outcome = run_plan(
            cells,
            folder,
            executors.make(executor, workers),
            keep=keep or chosen.keep,
            width=width,
            progress=finished,
        )
    found = {**outcome._asdict(), "cells": len(cells), "folder": str(folder)}
    if json:
        console.dump(found)
    else:
        console.say(
            f"{outcome.played} episodes played, {outcome.known} known, {outcome.failed} failed"
        )
        console.say(f"rows: {folder / 'rows.jsonl'}; tables: waggle report {folder}")
    return 1 if outcome.failed else 0


def _progress(*, quiet: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), disable=quiet, transient=True)


def report(folder: Path, /, *, records: Flag = False, json: Flag = False) -> int:
    """Write the report of a run: one HTML page, Markdown and LaTeX, from its rows alone.

    Args:
        folder: A run directory of `waggle eval`.
        records: Measure again from the kept record files (`waggle eval --keep`); no law runs.
        json: Print one JSON object instead of text.
    """
    copy = folder / RECIPE
    if not copy.exists():
        raise ConfigError(f"{folder} holds no {RECIPE}; name a run directory of `waggle eval`")
    recipe = plan.load(copy)
    rows = rows_from_records(plan.cells(recipe), folder) if records else None
    written = page.write(recipe, folder, f"waggle eval {folder.name}.toml", rows)
    if json:
        console.dump({name: str(path) for name, path in written._asdict().items()})
    else:
        console.say(written.markdown.read_text(encoding="utf-8"))
        console.say(f"page: {written.html}")
    return 0
