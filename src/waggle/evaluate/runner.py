"""Run a plan: resumable, in this process, in many, on Ray, or in lockstep for batched laws.

A finished cell is never played again unless it is asked for; a failed one is tried once more and
then reported, and the others go on; a law whose weights are not there may be left out. What a cell
gives does not depend on the executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from waggle.core.errors import ConfigError, WaggleError
from waggle.evaluate import sessions
from waggle.evaluate.episodes import law_of, options_of, play_cell, record_path
from waggle.evaluate.executors import Executor
from waggle.evaluate.lanes import Absent, in_lanes, in_lockstep, ready
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row, RowFile, read_rows, row_of
from waggle.evaluate.selection import by_seed
from waggle.runtime.records import read

RECORDS = "records"
"""Folder of the record files of a run, where they are kept."""
WIDTH = 256
"""Requests per batch for laws that want large batches."""
Progress = Callable[[Row], None]
"""Called for every finished cell."""
LeftOut = Callable[[Sequence[str], str], None]
"""Called with the methods of a law that cannot be loaded, and why."""


class Outcome(NamedTuple):
    """What a run of a plan did."""

    played: int
    known: int
    """Cells that were finished before."""
    failed: int


@dataclass(frozen=True)
class Ways:
    """How cells are played: ordinary laws by the executor, batched ones in lanes."""

    executor: Executor
    width: int = WIDTH
    processes: int = 1
    """Lanes of a batched law; more than one are processes, each with its own engine."""
    records: Path | None = None


class Group(NamedTuple):
    """The cells of one law."""

    law: str
    options: str
    cells: list[Cell]


def run_plan(
    plan: Sequence[Cell],
    folder: Path,
    executor: Executor,
    *,
    keep: bool = False,
    width: int | None = None,
    processes: int = 1,
    again: bool = False,
    progress: Progress | None = None,
    left_out: LeftOut | None = None,
) -> Outcome:
    """Play the unfinished cells of a plan and append their rows.

    Args:
        plan: the cells.
        folder: the run directory.
        executor: where episodes of ordinary laws are played.
        keep: whether record files are kept beside the rows.
        width: requests per batch for laws that want large batches, of their engine too; by
            default 256 and the engine's own.
        processes: processes for such a law, each with its own engine.
        again: whether finished cells are played too; their new rows then count.
        progress: told of every finished cell.
        left_out: told of laws that cannot be loaded; without it such a law ends the run.

    Raises:
        ConfigError: for a law that cannot be made, or be loaded.
    """
    done = set() if again else finished(folder)
    todo = [cell for cell in plan if (cell.method, cell.id) not in done]
    groups = _groups(todo, width)
    ways = Ways(executor, width or WIDTH, processes, folder / RECORDS if keep else None)
    rows, played, failed = RowFile(folder), 0, 0
    try:
        for group in groups:
            for row in _unless_absent(group, ways, folder, left_out):
                rows.append(row)
                played += not row.error
                failed += bool(row.error)
                if progress is not None:
                    progress(row)
    finally:
        rows.close()
    return Outcome(played, len(plan) - len(todo), failed)


def _unless_absent(
    group: Group, ways: Ways, folder: Path, left_out: LeftOut | None
) -> Iterator[Row]:
    """Play a group, or say that its law is not there."""
    try:
        yield from _timed(group, ways, folder)
    except Absent as error:
        methods = list(dict.fromkeys(cell.method for cell in group.cells))
        if left_out is None:
            raise _unusable(methods[0], error) from None
        left_out(methods, str(error))


def _unusable(method: str, error: WaggleError) -> ConfigError:
    return ConfigError(f"method {method!r}: {error}; or leave it out with --methods")


def finished(folder: Path) -> set[tuple[str, str]]:
    """Return method and id of the finished cells of a run directory."""
    try:
        return {(row.method, row.cell) for row in read_rows(folder) if not row.error}
    except WaggleError:
        return set()


def _groups(todo: Sequence[Cell], width: int | None) -> list[Group]:
    """Gather cells by law, whole seeds first, and see that each can be made before any plays."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in by_seed(todo):
        found.setdefault((cell.law, options_of(cell, width)), []).append(cell)
    for (law, options), group in found.items():
        try:
            law_of(law, options)
        except WaggleError as error:
            raise _unusable(group[0].method, error) from None
    return [Group(law, options, group) for (law, options), group in found.items()]


def _timed(group: Group, ways: Ways, folder: Path) -> Iterator[Row]:
    """Play a group and write down what it took, also if it was interrupted."""
    started, began = sessions.now(), perf_counter()
    episodes = failed = updates = 0
    try:
        for row in _play(group, ways):
            episodes += 1
            failed += bool(row.error)
            updates += row.counters.get("updates", 0)
            yield row
    finally:
        if episodes:
            sessions.append(
                folder,
                sessions.Session(
                    command=sessions.command_line(), started=started, machine=sessions.machine(),
                    law=group.law, methods=tuple(dict.fromkeys(c.method for c in group.cells)),
                    executor=_executor(group, ways), episodes=episodes, failed=failed,
                    updates=updates, seconds=round(perf_counter() - began, 2),
                ),
            )  # fmt: skip


def _batched(group: Group) -> bool:
    return bool(getattr(law_of(group.law, group.options), "batched", False))


def _executor(group: Group, ways: Ways) -> str:
    if not _batched(group):
        return repr(ways.executor)
    return f"{ways.processes} in lockstep, width {ways.width}"


def _play(group: Group, ways: Ways) -> Iterator[Row]:
    if not _batched(group):
        return ways.executor.map(play_cell, [(cell, ways.records) for cell in group.cells])
    if ways.processes > 1:
        return in_lanes(
            group.cells, group.law, group.options, ways.records, ways.width, ways.processes
        )
    return in_lockstep(group.cells, ready(group.law, group.options), ways.records, ways.width)


def rows_from_records(plan: Sequence[Cell], folder: Path) -> list[Row]:
    """Measure a plan again from its record files alone; no law is called."""
    paths = {(cell.method, cell.id): record_path(folder / RECORDS, cell) for cell in plan}
    return [
        row_of(cell, read(paths[cell.method, cell.id]))
        for cell in plan
        if paths[cell.method, cell.id].exists()
    ]
