"""Run a plan: resumable, in this process, in many, on Ray, or in lockstep for batched laws.

A finished cell is never played again; a failed one is tried once more and then reported, and the
others go on. What a cell gives does not depend on the executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from waggle import plugins
from waggle.core.errors import WaggleError
from waggle.core.protocols import Law
from waggle.evaluate.executors import Executor
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row, RowFile, failed_row, read_rows, row_of
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.lockstep import play_together
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory, Sink
from waggle.runtime.records import SUFFIX, RecordFile, read
from waggle.runtime.switches import Switches
from waggle.runtime.sync import Engine

RECORDS = "records"
"""Folder of the record files of a run, where they are kept."""
Progress = Callable[[Row], None]
"""Called for every finished cell."""


class Outcome(NamedTuple):
    """What a run of a plan did."""

    played: int
    known: int
    """Cells that were finished before."""
    failed: int


def run_plan(
    plan: list[Cell],
    folder: Path,
    executor: Executor,
    *,
    keep: bool = False,
    width: int = 256,
    progress: Progress | None = None,
) -> Outcome:
    """Play the unfinished cells of a plan and append their rows.

    Args:
        plan: the cells.
        folder: the run directory.
        executor: where episodes of ordinary laws are played.
        keep: whether record files are kept beside the rows.
        width: requests per batch for laws that profit from large batches.
        progress: told of every finished cell.
    """
    done = _finished(folder)
    todo = [cell for cell in plan if (cell.method, cell.id) not in done]
    records = folder / RECORDS if keep else None
    rows, failed = RowFile(folder), 0
    try:
        for row in _play_all(todo, executor, records, width):
            rows.append(row)
            failed += bool(row.error)
            if progress is not None:
                progress(row)
    finally:
        rows.close()
    return Outcome(len(todo) - failed, len(plan) - len(todo), failed)


def _finished(folder: Path) -> set[tuple[str, str]]:
    try:
        return {(row.method, row.cell) for row in read_rows(folder) if not row.error}
    except WaggleError:
        return set()


def _play_all(
    todo: list[Cell], executor: Executor, records: Path | None, width: int
) -> Iterator[Row]:
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in todo:
        key = (cell.law, msgspec.json.encode(cell.law_options, order="sorted").decode())
        groups.setdefault(key, []).append(cell)
    for (name, options), group in groups.items():
        law = _law(name, options)
        if getattr(law, "batched", False):
            yield from _in_lockstep(group, law, records, width)
        else:
            jobs = [(cell, records) for cell in group]
            yield from executor.map(play_cell, jobs)


@cache
def _law(name: str, options: str) -> Law:
    """Return a law, made once per process."""
    return plugins.get_law(name, **msgspec.json.decode(options))


def _engine(cell: Cell, law: Law, sinks: Iterable[Sink]) -> Engine:
    world = plugins.get_substrate(cell.case.substrate).open(cell.case)
    kind = EventEngine if cell.engine == "event" else Engine
    return kind(
        world,
        law,
        cell.case,
        order=cell.order,  # type: ignore[arg-type]
        switches=msgspec.convert(cell.switches, Switches),
        perturbation=msgspec.convert(cell.perturbation, Perturbation),
        sinks=list(sinks),
    )


def play_cell(job: tuple[Cell, Path | None]) -> Row:
    """Play one cell and measure it; a failure is tried once more, then becomes its row."""
    cell, records = job
    reason = ""
    for _ in range(2):
        try:
            return _play_once(cell, records)
        except WaggleError as error:
            return failed_row(cell, str(error))
        except Exception as error:  # a broken plug-in must not lose the other cells
            reason = f"{type(error).__name__}: {error}"
    return failed_row(cell, reason)


def _play_once(cell: Cell, records: Path | None) -> Row:
    law = _law(cell.law, msgspec.json.encode(cell.law_options, order="sorted").decode())
    memory = Memory()
    if records is None:
        _engine(cell, law, [memory]).play()
    else:
        with RecordFile(record_path(records, cell)) as sink:
            _engine(cell, law, [memory, sink]).play()
    return row_of(cell, memory.record())


def record_path(records: Path, cell: Cell) -> Path:
    """Return where a cell's record lies."""
    return records / f"{cell.method}_{cell.id}{SUFFIX}"


def _in_lockstep(group: list[Cell], law: Law, records: Path | None, width: int) -> Iterator[Row]:
    """Play many episodes side by side, so that the law sees large batches."""
    memories: dict[int, tuple[Cell, Memory]] = {}

    def engines() -> Iterator[Engine]:
        for cell in group:
            memory = Memory()
            engine = _engine(cell, law, [memory])
            memories[id(engine)] = (cell, memory)
            yield engine

    for engine, _ in play_together(engines(), law, width):
        cell, memory = memories.pop(id(engine))
        episode = memory.record()
        if records is not None:
            with RecordFile(record_path(records, cell)) as sink:
                sink.header(episode.header)
                for entry in episode.rounds:
                    sink.round(entry)
                sink.footer(episode.footer)
        yield row_of(cell, episode)


def rows_from_records(plan: list[Cell], folder: Path) -> list[Row]:
    """Measure a plan again from its record files alone; no law is called."""
    paths = {(cell.method, cell.id): record_path(folder / RECORDS, cell) for cell in plan}
    return [
        row_of(cell, read(paths[cell.method, cell.id]))
        for cell in plan
        if paths[cell.method, cell.id].exists()
    ]
