"""Run a plan: resumable, in this process, in many, on Ray, or in lockstep for batched laws.

A finished cell is never played again unless it is asked for; a failed one is tried once more and
then reported, and the others go on. A law whose weights are not there may be left out, and so may
one whose finished rows other weights played. What a cell gives does not depend on the executor.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from waggle.core.errors import ConfigError, RecordError, WaggleError
from waggle.evaluate import sessions, weights
from waggle.evaluate.again import Again
from waggle.evaluate.episodes import law_of, options_of, play_cell, record_path
from waggle.evaluate.executors import Executor
from waggle.evaluate.lanes import Absent, Part, Tell, in_lanes, in_lockstep, ready
from waggle.evaluate.plan import Cell, Keep
from waggle.evaluate.rows import Row, RowFile, alike, has_rows, read_rows, row_of, succeeded
from waggle.evaluate.selection import by_seed
from waggle.evaluate.thin import Kept
from waggle.runtime.records import read

RECORDS = "records"
"""Folder of the record files of a run, where they are kept."""
WIDTH = 256
"""Requests per batch for laws that want large batches."""
Progress = Callable[[Row], None]
"""Called for every finished cell."""
LeftOut = Callable[[Sequence[str], str], None]
"""Called with the methods of a law that is not played, and why."""


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
    records: Kept | None = None


def run_plan(
    plan: Sequence[Cell],
    folder: Path,
    executor: Executor,
    *,
    keep: Keep = False,
    width: int | None = None,
    processes: int = 1,
    again: bool = False,
    progress: Progress | None = None,
    left_out: LeftOut | None = None,
    whole: Sequence[Cell] | None = None,
    notice: Callable[[str], None] | None = None,
) -> Outcome:
    """Play the unfinished cells of a plan and append their rows.

    Args:
        plan: the cells.
        folder: the run directory.
        executor: where episodes of ordinary laws are played.
        keep: whether record files are kept beside the rows, whole or for their measures alone.
        width: requests per batch for laws that want large batches, of their engine too; by
            default 256 and the engine's own.
        processes: processes for such a law, each with its own engine.
        again: whether finished cells are played too; their new rows then count. A call that was
            interrupted goes on.
        progress: told of every finished cell.
        left_out: told of laws that cannot be loaded, or that have other weights than their finished
            rows; without it such a law ends the run.
        whole: the plan of which these cells are a part; its rows of the same methods count when
            weights are compared.
        notice: told of rows that stay beside new ones although another law may have played them.

    Raises:
        ConfigError: for a law that cannot be made, be loaded, or be continued.
    """
    here, whole = finished_rows(folder), whole or plan
    anew = Again(folder, plan) if again else None
    done = here if anew is None else anew.done(width, notice)
    todo = [cell for cell in plan if (cell.method, cell.id) not in done]
    known = len(plan) - len(todo)
    if not again:
        todo = _continued(todo, _siblings(plan, whole), here, width, left_out)
    groups = _groups(todo, width)
    if notice is not None:
        for line in _staying(todo, _siblings(todo, whole), here, width):
            notice(line)
    # Absolute: workers elsewhere need not stand in this folder.
    kept = Kept((folder / RECORDS).resolve(), keep == "measures") if keep else None
    ways = Ways(executor, width or WIDTH, processes, kept)
    rows, played, failed = RowFile(folder), 0, 0
    absent = _absence(left_out)
    if anew is not None:
        anew.begin()
    try:
        for crowd in _crowds(groups, processes):
            for row in _timed(crowd, ways, folder, absent):
                rows.append(row)
                played += not row.error
                failed += bool(row.error)
                if progress is not None:
                    progress(row)
    finally:
        rows.close()
    if anew is not None:
        anew.end()
    return Outcome(played, known, failed)


def _siblings(cells: Sequence[Cell], whole: Sequence[Cell]) -> list[Cell]:
    """Return all planned cells of the methods of some."""
    methods = {cell.method for cell in cells}
    return [cell for cell in whole if cell.method in methods]


def _continued(
    todo: Sequence[Cell],
    siblings: Sequence[Cell],
    here: Mapping[tuple[str, str], Row],
    width: int | None,
    left_out: LeftOut | None,
) -> list[Cell]:
    """Return the cells of methods whose law still has the weights of its finished rows."""
    gone: set[str] = set()
    for methods, reason in weights.refused(weights.compare(siblings, here, width)):
        if left_out is None:
            raise _unusable(methods[0], reason)
        left_out(methods, reason)
        gone.update(methods)
    return [cell for cell in todo if cell.method not in gone]


def _staying(
    todo: Sequence[Cell],
    siblings: Sequence[Cell],
    here: Mapping[tuple[str, str], Row],
    width: int | None,
) -> list[str]:
    replaced = {(cell.method, cell.id) for cell in todo}
    left = {key: row for key, row in here.items() if key not in replaced}
    return weights.staying(weights.compare(siblings, left, width, silent=True))


def _absence(left_out: LeftOut | None) -> Tell:
    """Return who hears of laws that are not there: the caller, or an error that ends the run."""

    def tell(part: Part, reason: str) -> None:
        methods = list(dict.fromkeys(cell.method for cell in part.cells))
        if left_out is None:
            raise _unusable(methods[0], reason)
        left_out(methods, reason)

    return tell


def _unusable(method: str, error: WaggleError | str) -> ConfigError:
    return ConfigError(f"method {method!r}: {error}; or leave it out with --methods")


def finished(folder: Path) -> set[tuple[str, str]]:
    """Return method and id of the finished cells of a run directory, none where there are no rows.

    Raises:
        RecordError: if a line is no row: what was played is then not to be played again unasked.
    """
    return set(finished_rows(folder))


def finished_rows(folder: Path) -> dict[tuple[str, str], Row]:
    """Return the rows of finished cells by method and id, as `finished` finds them."""
    return succeeded(folder) if has_rows(folder) else {}


def _groups(todo: Sequence[Cell], width: int | None) -> list[Part]:
    """Gather cells by law, whole seeds first, and see that each can be made before any plays."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in by_seed(todo):
        found.setdefault((cell.law, options_of(cell, width)), []).append(cell)
    for (law, options), group in found.items():
        try:
            law_of(law, options)
        except WaggleError as error:
            raise _unusable(group[0].method, error) from None
    return [Part(law, options, group) for (law, options), group in found.items()]


def _crowds(groups: Sequence[Part], processes: int) -> list[list[Part]]:
    """Put laws that want large batches together where they share processes; others play alone."""
    if processes <= 1:
        return [[group] for group in groups]
    together = [group for group in groups if _batched(group)]
    alone = [[group] for group in groups if not _batched(group)]
    return [together, *alone] if together else alone


def _timed(crowd: Sequence[Part], ways: Ways, folder: Path, absent: Tell) -> Iterator[Row]:
    """Play some laws and write down what it took, also if it was interrupted."""
    started, began = sessions.now(), perf_counter()
    episodes = failed = updates = 0
    played: dict[str, None] = {}
    try:
        for row in _play(crowd, ways, absent):
            episodes += 1
            failed += bool(row.error)
            updates += row.counters.get("updates", 0)
            played[row.method] = None
            yield row
    finally:
        if episodes:
            sessions.append(
                folder,
                sessions.Session(
                    command=sessions.command_line(), started=started, machine=sessions.machine(),
                    law=", ".join(dict.fromkeys(part.law for part in crowd)),
                    methods=_in_order(crowd, played), executor=_executor(crowd[0], ways),
                    episodes=episodes, failed=failed, updates=updates,
                    seconds=round(perf_counter() - began, 2),
                ),
            )  # fmt: skip


def _in_order(crowd: Sequence[Part], played: Container[str]) -> tuple[str, ...]:
    """Name the methods that were played, as the plan lists them."""
    names = dict.fromkeys(cell.method for part in crowd for cell in part.cells)
    return tuple(name for name in names if name in played)


def _batched(group: Part) -> bool:
    return bool(getattr(law_of(group.law, group.options), "batched", False))


def _executor(group: Part, ways: Ways) -> str:
    if not _batched(group):
        return repr(ways.executor)
    return f"{ways.processes} in lockstep, width {ways.width}"


def _play(crowd: Sequence[Part], ways: Ways, absent: Tell) -> Iterator[Row]:
    """Play laws in shared lanes, or the one law of a crowd here."""
    first = crowd[0]
    if not _batched(first):
        yield from ways.executor.map(play_cell, [(cell, ways.records) for cell in first.cells])
    elif ways.processes > 1:
        yield from in_lanes(crowd, ways.records, ways.width, ways.processes, absent)
    else:
        try:
            law = ready(first.law, first.options)
        except Absent as error:
            absent(first, str(error))
            return
        yield from in_lockstep(first.cells, law, ways.records, ways.width)


def rows_from_records(plan: Sequence[Cell], folder: Path) -> list[Row]:
    """Measure a plan again from its record files alone; no law is called.

    Raises:
        RecordError: if a record and the row of its cell tell of two episodes.
    """
    rows = read_rows(folder) if has_rows(folder) else []
    there = {(row.method, row.cell): row for row in rows}
    found = []
    for cell in plan:
        path = record_path(folder / RECORDS, cell)
        if path.exists():
            row = row_of(cell, read(path))
            told = there.get((cell.method, cell.id))
            if told is not None and not told.error and not alike(row, told):
                raise RecordError(
                    f"{path} tells of another episode than the row of its cell; remove it, or play "
                    "the cell with --again --keep"
                )
            found.append(weights.measured_before(row, told))
    return found
