"""`waggle eval`, `report` and `archive`: run a recipe, write its tables, pack its rows."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from waggle import plugins
from waggle.api.progress import counting
from waggle.cli import console
from waggle.cli.options import (
    AsJson,
    Chosen,
    ChosenSizes,
    Flag,
    LawOptions,
    WorkerOptions,
    at_least_one,
    read_law,
    read_worker,
    words,
)
from waggle.cli.play.view import show_live
from waggle.cli.setup.recipes import bundled
from waggle.core.errors import ConfigError, suggest
from waggle.evaluate import archive as packing
from waggle.evaluate import executors, plan, selection, stale
from waggle.evaluate.merge import merge as merge_rows
from waggle.evaluate.plan import Cell, Key, Recipe
from waggle.evaluate.replace import FOLDER as AGAIN
from waggle.evaluate.replace import play_again
from waggle.evaluate.rows import Row, finished_rows, has_rows, planned, read_rows
from waggle.evaluate.runner import open_run, refuse, rows_from_records, run_plan
from waggle.evaluate.selection import select
from waggle.evaluate.variants import added_laws, with_law, with_worker
from waggle.learn.runs import find as find_learned
from waggle.report import catalog, docs_pages, page

SHOWN_FAILURES = 3
"""Number of failed cells whose reason is printed; the rows hold all reasons."""


def evaluate(
    recipe: Path,
    /,
    *,
    out: Path | None = None,
    methods: Chosen = "",
    tasks: Chosen = "",
    n: ChosenSizes = "",
    seeds: int | None = None,
    executor: Literal["inline", "process", "ray"] = "process",
    workers: int | None = None,
    processes: int = 1,
    width: int | None = None,
    keep: Flag = False,
    view: Flag = False,
    again: Flag = False,
    merge: list[Path] | None = None,
    dry_run: Flag = False,
    law: str = "",
    law_options: LawOptions = None,
    worker: str = "",
    worker_options: WorkerOptions = None,
    json: AsJson = False,
) -> int:
    """Run the unfinished cells of a recipe, or of a part of it.

    A cell is one method x task x N x seed, with a stable id. Running the command again plays only
    what is missing or failed, so an interrupted run loses no finished cell. Parts can be played at
    different times and, with `--merge`, on different machines. A law is skipped if its weights are
    missing, or if it was retrained after its finished rows were played; if `--methods` names it,
    the command fails instead. Write the tables with `waggle report DIR`. Examples:

    `waggle eval recipes/silo_sources.toml --methods expert,heuristic -n 16 --seeds 1`

    `waggle eval tables/same_runtime --law chat --law.base-url URL --law.model gpt-4o`

    Args:
        recipe: Evaluation recipe: a TOML file, or a name of `waggle recipes list`.
        out: Run directory. Default: `runs/NAME`, after the name of the recipe file.
        methods: Play only these methods, e.g. `expert,nano*`.
        tasks: Play only these tasks, e.g. `silo/*,swarmbench/pursuit`.
        n: Play only these population sizes, e.g. `16,32`.
        seeds: Play only this many seeds per setting, the smallest first.
        executor: Where to play rule-based laws: in this process (inline), in worker processes, or
            on a Ray cluster. Laws that use large batches play many episodes in parallel instead
            (see --processes).
        workers: Number of worker processes; on Ray, of concurrent cells. Default: one per core.
        processes: Number of processes for a law that uses large batches, each with its own engine;
            several can share one GPU (WAGGLE_GPU_SHARE=0.5 limits each to half of its memory).
        width: Requests per batch of such a law, in each process. Default: 256, in batches of the
            engine's own size. Use 512 on a GPU, 64 on a CPU.
        keep: Save the record of every episode beside its row.
        view: Show the episodes in the browser while they are played, as `waggle view` does, and
            save their records; on a terminal the page stays open until Ctrl-C.
        again: Play finished cells again, after a law has changed; the new rows take effect once all
            are played. The same command resumes after an interruption.
        merge: Play nothing; import finished rows of the recipe from this run directory or archive.
            With --again, they replace rows that differ or have other weights. Can be repeated.
        dry_run: Play nothing; print the cells and decisions of each method, finished and remaining.
        law: A law of your own as one more method of the recipe, in every block: a name from
            `waggle list laws`, a Python file that registers one law, or a law's folder. Pass its
            options as `--law.KEY VALUE`. Only this law is played unless `--methods` names others;
            with `--merge`, the stored rows of all methods are imported beside its own. The run
            directory keeps it, so that several laws come into one table; calls without `--law` or
            `--methods` do not play it.
        worker: Use this worker for the methods that have private workers, instead of theirs. Pass
            its options as `--worker.KEY VALUE`; schedules stay as in the recipe.
    """
    at_least_one(processes=processes, width=1 if width is None else width)
    chosen = plan.load(bundled(recipe))
    if not recipe.exists():
        chosen = chosen.model_copy(update={"source": str(recipe)})
    place = out or Path("runs") / recipe.stem
    added = _earlier_laws(place, chosen)
    if hired := read_worker(worker, worker_options):
        chosen = with_worker(chosen, hired)
    if law or law_options:
        own, spec = _own_method(law, law_options)
        before = added.get(own, spec)
        if (before.law, before.options) != (spec.law, spec.options):
            console.note(f"{own} has other options now; its earlier rows leave the tables")
        added[own] = spec
        methods = methods or ("" if merge else own)
    for name, spec in added.items():
        chosen = with_law(chosen, name, spec)
    catalog.check(chosen)  # fail now, not after everything has been played
    cells = whole = plan.cells(chosen)
    if not methods and not merge:  # laws of earlier calls only stay in the tables
        cells = [cell for cell in cells if cell.method not in added]
    if methods or tasks or n or seeds is not None:
        cells = select(cells, methods=words(methods), tasks=words(tasks), n=_sizes(n), seeds=seeds)
    if dry_run:
        return _count(cells, finished_rows(place / AGAIN if again else place), json=json)
    folder = open_run(place, chosen)
    if merge:
        return _merge(cells, folder, merge, again=again, json=json)
    end = show_live(folder) if view else None
    failures: list[Row] = []
    faults: dict[str, str] = {}
    finished = finished_rows(place / AGAIN if again else place)
    left = sum(cell.key not in finished for cell in cells)
    with _progress(left, failures, faults, quiet=json) as progress:
        outcome = (play_again if again else run_plan)(
            cells,
            folder,
            executors.make(executor, workers),
            keep=keep or chosen.keep or view,
            live=view,
            width=width,
            processes=processes,
            progress=progress,
            whole=whole,
            left_out=refuse if methods else _left_out,
        )
    for row in failures[:SHOWN_FAILURES]:
        console.note(f"failed: {row.method} {row.task} N={row.n} seed {row.seed}: {row.error}")
    for name, reason in faults.items():
        console.note(
            f"metric {name!r} failed: {reason}; correct it and measure again, with `waggle report "
            f"{folder} --records` where records were kept, else with --again"
        )
    if again and (folder / AGAIN).exists():
        console.note("the earlier rows stay until all cells are played; run the same command again")
    if json:
        about = {"cells": len(cells), "folder": str(folder), "metrics_failed": faults}
        console.dump({**outcome._asdict(), **about})
    else:
        console.say(
            f"{outcome.played} episodes played, {outcome.known} known, {outcome.failed} failed"
        )
        console.say(f"rows: {folder / 'rows.jsonl'}; tables: waggle report {folder}")
    if end is not None:
        end()
    return 1 if outcome.failed or faults else 0


def _earlier_laws(place: Path, recipe: Recipe) -> dict[str, plan.MethodSpec]:
    """Return the laws that earlier calls with `--law` added to the run of this recipe."""
    try:
        before = plan.load_run(place)
    except ConfigError:  # there is no run yet, or none that can be read
        return {}
    # By title: the path of the recipe depends on where the command was called.
    found = added_laws(before) if before.title == recipe.title else {}
    return {name: spec for name, spec in found.items() if name not in recipe.methods}


def _own_method(law: str, options: Mapping[str, str] | None) -> tuple[str, plan.MethodSpec]:
    """Return the method of `--law`, named after the model of an endpoint, else after the law.

    A plug-in file stands for its only law, so that `--law FILE.py` and `--law NAME` are one method.
    """
    if not law:
        raise ConfigError("--law.* belongs to a law; name one with --law")
    known, given = read_law(law, options)
    called = (options or {}).get("model", known if law.endswith(".py") else law)
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", called).strip("-._+")
    return name, plan.MethodSpec(law=known, options=given)


def _count(cells: Sequence[Cell], done: Mapping[Key, Row], *, json: bool) -> int:
    """Print the cells and decisions of every method of a plan, and the unknown laws."""
    laws, known = {cell.method: cell.law for cell in cells}, plugins.names("law")
    for method, law in laws.items():
        if law not in known and not Path(law).is_dir():
            hint = suggest(law, known)
            console.note(f"method {method!r}: law {law!r} is unknown; see `waggle list laws`{hint}")
    *rows, total = selection.counts(cells, done)
    for methods, reason in stale.stale_methods(cells, done):
        _left_out(methods, reason)
    if json:
        console.dump({"methods": [row._asdict() for row in rows], "all": total._asdict()})
        return 0
    head = ["method", "cells", "decisions", "cells finished", "decisions left"]
    console.table(None, head, [list(row) for row in [*rows, total]])
    return 0


def _left_out(methods: Sequence[str], reason: str) -> None:
    console.note(f"left out: {', '.join(methods)} ({reason})")


def _merge(
    cells: Sequence[Cell], folder: Path, others: Sequence[Path], *, again: bool, json: bool
) -> int:
    found = {
        str(other): merge_rows(cells, folder, other, again=again)._asdict() for other in others
    }
    if json:
        console.dump({"folder": str(folder), "merged": found})
        return 0
    for name, counts in found.items():
        console.say(
            f"{name}: {counts['taken']} rows taken, {counts['known']} known, "
            f"{counts['foreign']} not in the plan"
        )
        if counts["older"]:
            console.note(
                f"{counts['older']} rows of the replaced methods are not in {name} and stay: if "
                "the law has changed, they are of the older one; play them again, or remove them"
            )
    return 0


def _sizes(text: str) -> list[int]:
    try:
        return [int(word) for word in words(text)]
    except ValueError:
        raise ConfigError(f"--n takes population sizes such as 16,32, not {text!r}") from None


@contextmanager
def _progress(
    total: int, failures: list[Row], faults: dict[str, str], *, quiet: bool
) -> Iterator[Callable[[Row], None]]:
    """Show a bar on a terminal, elsewhere a line for every tenth of the plan; collect failures.

    For a metric that fails, the first reason is kept.
    """
    with counting("cells", total, quiet=quiet, lines=True) as step:

        def finished(row: Row) -> None:
            if row.error:
                failures.append(row)
            for name, reason in (row.faults or {}).items():
                faults.setdefault(name, reason)
            step(f"{row.method} {row.task} N={row.n}", failed=bool(row.error))

        yield finished


def report(
    folder: Path,
    /,
    *,
    records: Flag = False,
    freeze: Path | None = None,
    pages: Path | None = None,
    json: AsJson = False,
) -> int:
    """Write the report of a run from its rows: one HTML page, Markdown and LaTeX.

    Writes `report.*` to the run directory and prints the Markdown, on a terminal without its
    tables. Results of `waggle diagnose --out` in the run's folder `diagnoses` become its table of
    held-out decisions. For a run of `waggle learn`, or a folder of such runs (training seeds,
    credits, the shuffled control), the report has its curves, gains and controls. Example:

    `waggle report results/primary`

    Args:
        folder: Run directory of `waggle eval` or an archive of one, run of `waggle learn`, or
            folder of such runs.
        records: Recompute the rows from the saved record files (`waggle eval --keep`); no law is
            run.
        freeze: Also write the expert's SwarmBench means at N = 8 to this file, as the anchors by
            which scores are normalized.
        pages: Instead write a Markdown page per archive in FOLDER, and an index, to this folder of
            the documentation: `waggle report results --pages docs/results`.
    """
    if pages is not None:
        written_pages = docs_pages.write(folder, pages)
        if json:
            console.dump({"pages": [str(path) for path in written_pages]})
        else:
            console.say(f"{len(written_pages)} pages: {pages}")
        return 0
    if not (folder / plan.RUN_RECIPE).exists() and find_learned(folder):
        from waggle.report import learning

        if records or freeze is not None:
            raise ConfigError(
                "--records and --freeze are for runs of `waggle eval`; leave them out"
            )
        written = learning.write(folder)
    else:
        written = _report_rows(folder, records=records, freeze=freeze)
    if json:
        console.dump({name: str(path) for name, path in written._asdict().items()})
    else:
        text = written.markdown.read_text(encoding="utf-8")
        if sys.stdout.isatty():
            console.wrapped(text.partition("\n### ")[0])
        else:
            console.say(text)
        console.say(f"page: {written.html}; tables: {written.markdown}")
    return 0


def _report_rows(folder: Path, *, records: bool, freeze: Path | None) -> page.ReportFiles:
    """Write the report of a run of `waggle eval`."""
    recipe = plan.load_run(folder)
    known = read_rows(folder) if records and has_rows(folder) else []
    rows = rows_from_records(planned(recipe, known), folder) if records else None
    if freeze is not None:
        _freeze(recipe, folder, freeze)
    return page.write(recipe, folder, rows)


def _freeze(recipe: Recipe, folder: Path, target: Path) -> None:
    from waggle.evaluate import anchors
    from waggle.report.provenance import counted

    command = f"waggle report {folder} --freeze {target}"
    rows = counted(read_rows(folder), recipe).rows
    anchors.write(anchors.freeze(rows, command), target)


def archive(run: Path, to: Path, /, *, json: AsJson = False) -> int:
    """Pack the rows of a run, so that its tables can be rebuilt anywhere without playing.

    `waggle report TO` writes the tables; `waggle eval RECIPE --merge TO` imports the rows into a
    run. Running the command again replaces only methods that have rows in the run. Example:

    `waggle archive runs/primary results/primary`

    Args:
        run: Run directory of `waggle eval`.
        to: Folder of the archive.
    """
    done = packing.archive(planned(plan.load_run(run), read_rows(run)), run, to)
    shutil.copyfile(run / plan.RUN_RECIPE, to / plan.RUN_RECIPE)
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    if json:
        console.dump({**done._asdict(), "folder": str(to), "bytes": size})
        return 0
    console.table(None, ("method", "rows"), list(done.rows.items()), right=1)
    rest = f", {done.copied} files copied" if done.copied else ""
    console.say(f"{done.left} rows left out{rest}; {to} has {size:,} bytes")
    return 0
