"""Run a plan, resumably: in this process, in several, on Ray, or in large batches.

A finished cell is not played again; a failed one is tried once more, then reported, and the others
go on. A law may be left out if its weights are missing or differ from those that played its
finished rows. The result of a cell does not depend on the executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, NoReturn

import msgspec

from waggle.core.errors import ConfigError, RecordError, WaggleError
from waggle.evaluate import sessions
from waggle.evaluate.batched import (
    LawCells,
    LawUnavailable,
    LeftOut,
    load_law,
    play_batched,
    play_in_processes,
)
from waggle.evaluate.episodes import (
    RECORDS,
    SHARDS,
    RecordFolder,
    law_of,
    options_of,
    play_cell,
    play_in_shards,
    record_path,
)
from waggle.evaluate.executors import Executor
from waggle.evaluate.plan import Cell, Keep, Recipe, write_run
from waggle.evaluate.rows import (
    Row,
    RowFile,
    alike,
    finished_rows,
    has_rows,
    packed,
    read_rows,
    require_idle,
    row_of,
)
from waggle.evaluate.selection import by_seed
from waggle.evaluate.stale import stale_methods
from waggle.runtime.records import read
from waggle.shared_folders import sweep

WIDTH = 256
"""Requests per batch for laws that want large batches."""


class Outcome(NamedTuple):
    """The cell counts of one run of a plan."""

    played: int
    known: int
    """Cells that were finished before."""
    failed: int


class _PlayOptions(NamedTuple):
    """How cells are played: ordinary laws by the executor, others in batches."""

    executor: Executor
    width: int
    processes: int
    """Worker processes for batched laws, each with its own engine."""
    records: RecordFolder | None
    folder: Path
    """The run directory."""


def refuse(methods: Sequence[str], reason: object) -> NoReturn:
    """Raise the error that ends a run because a law cannot be played."""
    said = f"method {methods[0]!r}: {reason}"
    way = " Or" if said.endswith("?") else "; or"
    raise ConfigError(f"{said}{way} leave it out with --methods")


def open_run(folder: Path, recipe: Recipe) -> Path:
    """Create a run directory and write the recipe into it, with its defaults filled in.

    Raises:
        ConfigError: if the folder is an archive, or another process writes to it.
    """
    if packed(folder):
        raise ConfigError(
            f"{folder} is an archive, which is not played into; play elsewhere and take its rows "
            f"there with --merge {folder}"
        )
    require_idle(folder)
    write_run(folder, recipe)
    return folder


def run_plan(
    plan: Sequence[Cell],
    folder: Path,
    executor: Executor,
    *,
    keep: Keep = False,
    live: bool = False,
    width: int | None = None,
    processes: int = 1,
    progress: Callable[[Row], None] | None = None,
    left_out: LeftOut = refuse,
    whole: Sequence[Cell] | None = None,
) -> Outcome:
    """Play the unfinished cells of a plan and append their rows.

    Args:
        plan: the cells.
        folder: the run directory.
        executor: where episodes of ordinary laws are played.
        keep: whether record files are kept beside the rows, whole or thin.
        live: whether kept records can be watched while their episodes are played.
        width: requests per batch for laws that want large batches, and the batch size of their
            engine; by default 256 and the engine's default.
        processes: processes for such a law, each with its own engine.
        progress: called for every finished cell.
        left_out: called for laws that cannot be loaded, or whose weights or plug-in files differ
            from those of their finished rows; by default such a law ends the run.
        whole: the full plan that these cells are part of; its rows of the same methods are
            included when weights and files are compared.

    Raises:
        ConfigError: if a law cannot be created, loaded or continued.
    """
    here = finished_rows(folder)
    todo = [cell for cell in plan if cell.key not in here]
    known = len(plan) - len(todo)
    for methods, reason in stale_methods(_same_methods(plan, whole or plan), here, width):
        left_out(methods, reason)
        todo = [cell for cell in todo if cell.method not in methods]
    laws = _by_law(todo, width)
    # An absolute path: workers may run in another folder.
    records = None
    if keep:
        records = RecordFolder((folder / RECORDS).resolve(), keep == "measures", live)
    play = _PlayOptions(executor, width or WIDTH, processes, records, folder)
    rows, played, failed = RowFile(folder), 0, 0
    sweep(folder / RECORDS)
    try:
        for group in _groups(laws, processes):
            for row in _timed(group, play, folder, left_out):
                rows.append(row)
                played += not row.error
                failed += bool(row.error)
                if progress is not None:
                    progress(row)
    finally:
        rows.close()
    return Outcome(played, known, failed)


def _same_methods(cells: Sequence[Cell], whole: Sequence[Cell]) -> list[Cell]:
    """Return the cells of `whole` whose methods occur in `cells`."""
    methods = {cell.method for cell in cells}
    return [cell for cell in whole if cell.method in methods]


def _by_law(todo: Sequence[Cell], width: int | None) -> list[LawCells]:
    """Group cells by law, ordered by seed; create every law before any cell is played."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in by_seed(todo):
        found.setdefault((cell.law, options_of(cell, width)), []).append(cell)
    for (law, options), cells in found.items():
        try:
            law_of(law, options)
        except WaggleError as error:
            refuse([cells[0].method], error)
    return [LawCells(law, options, cells) for (law, options), cells in found.items()]


def _groups(laws: Sequence[LawCells], processes: int) -> list[list[LawCells]]:
    """Group the laws that are played together: batched laws share worker processes."""
    if processes <= 1:
        return [[law] for law in laws]
    together = [law for law in laws if _batched(law)]
    alone = [[law] for law in laws if not _batched(law)]
    return [together, *alone] if together else alone


def _batched(law: LawCells) -> bool:
    return bool(getattr(law_of(law.law, law.options), "batched", False))


def _timed(
    group: Sequence[LawCells], play: _PlayOptions, folder: Path, left_out: LeftOut
) -> Iterator[Row]:
    """Play a group of laws and log the session, even if it is interrupted."""
    started, began = sessions.now(), perf_counter()
    episodes = failed = updates = 0
    played: set[str] = set()
    try:
        for row in _play(group, play, left_out):
            episodes += 1
            failed += bool(row.error)
            updates += row.counters.get("updates", 0)
            played.add(row.method)
            yield row
    finally:
        if episodes:
            methods = dict.fromkeys(name for law in group for name in law.methods)
            session = sessions.Session(
                command=sessions.command_line(),
                started=started,
                machine=sessions.machine(),
                law=", ".join(dict.fromkeys(law.law for law in group)),
                methods=tuple(name for name in methods if name in played),
                executor=_executor(group[0], play),
                episodes=episodes,
                failed=failed,
                updates=updates,
                seconds=round(perf_counter() - began, 2),
            )
            sessions.append(folder, session)


def _executor(law: LawCells, play: _PlayOptions) -> str:
    if not _batched(law):
        return repr(play.executor)
    return f"{play.processes} in lockstep, width {play.width}"


def _play(group: Sequence[LawCells], play: _PlayOptions, left_out: LeftOut) -> Iterator[Row]:
    """Play a group: sharded cells first, then the others in batches or by the executor."""
    for part in group:  # a cell in shards has the cluster to itself
        dealt = [cell for cell in part.cells if cell.shards]
        yield from (play_in_shards(cell, play.records, play.folder / SHARDS) for cell in dealt)
    group = [part._replace(cells=[c for c in part.cells if not c.shards]) for part in group]
    group = [part for part in group if part.cells]
    if not group:
        return
    first = group[0]
    if not _batched(first):
        yield from play.executor.map(play_cell, [(cell, play.records) for cell in first.cells])
    elif play.processes > 1:
        yield from play_in_processes(group, play.records, play.width, play.processes, left_out)
    else:
        try:
            law = load_law(first.law, first.options)
        except LawUnavailable as error:
            left_out(first.methods, str(error))
            return
        yield from play_batched(first.cells, law, play.records, play.width)


def rows_from_records(plan: Sequence[Cell], folder: Path) -> list[Row]:
    """Recompute the rows of a plan from its record files alone; no law is called.

    A record is refused if its episode differs from the row of its cell; failed rows without a
    record are returned unchanged.
    """
    rows = {row.key: row for row in read_rows(folder)} if has_rows(folder) else {}
    found = []
    for cell in plan:
        path, known = record_path(folder / RECORDS, cell), rows.get(cell.key)
        if not path.exists():
            found += [known] if known is not None and known.error else []
            continue
        measured = row_of(cell, read(path))
        if known is not None and not known.error and not alike(measured, known):
            raise RecordError(
                f"{path} tells of another episode than the row of its cell; remove it, or play "
                "the cell with --again --keep"
            )
        if known is not None:  # a record does not store the digests of its law
            measured = msgspec.structs.replace(measured, weights=known.weights, code=known.code)
        found.append(measured)
    return found
