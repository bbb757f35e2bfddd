"""Laws that want large batches: many episodes side by side, in this process or in several.

A lane is one process with its own engine that draws cells from a common queue and plays as many at
once as fill its batch; lanes share a GPU, so that the host's work on views, drafts and worlds
spreads over the cores. Invariant: the rows do not depend on width or lanes, since a law's answers
do not depend on what shares their batch. One bad episode loses none of the others.
"""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from waggle.core.protocols import Law
from waggle.evaluate.episodes import law_of, measured, open_engine, play_alone, reason_of
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row, failed_row
from waggle.runtime.lockstep import play_together
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine

START = "spawn"
"""How lanes are started: afresh, since a process that has used a GPU cannot be forked."""
POLL_SECONDS = 2.0
"""How often a silent lane is looked after."""


def in_lockstep(cells: Iterable[Cell], law: Law, records: Path | None, width: int) -> Iterator[Row]:
    """Play many episodes side by side, so that the law sees large batches."""
    waiting, whole = iter(cells), False
    while not whole:
        playing: dict[int, tuple[Cell, Memory]] = {}
        unopened: list[Row] = []
        try:
            for engine, _ in play_together(_opened(waiting, law, playing, unopened), law, width):
                cell, memory = playing.pop(id(engine))
                yield measured(cell, memory.record(), records)
            whole = True
        except Exception:  # a bug in one episode or in the law: what was open is played alone
            for cell, _ in playing.values():
                yield play_alone(cell, law, records)
        yield from unopened


def _opened(
    waiting: Iterator[Cell],
    law: Law,
    playing: dict[int, tuple[Cell, Memory]],
    unopened: list[Row],
) -> Iterator[Engine]:
    """Open the episodes one by one; a case that cannot be opened is its own failure."""
    for cell in waiting:
        memory = Memory()
        try:
            engine = open_engine(cell, law, [memory])
        except Exception as error:  # the others go on
            unopened.append(failed_row(cell, reason_of(error)))
            continue
        playing[id(engine)] = (cell, memory)
        yield engine


def in_lanes(
    cells: Sequence[Cell], law: str, options: str, records: Path | None, width: int, lanes: int
) -> Iterator[Row]:
    """Play cells in several processes, each with an engine of its own; rows come as they end."""
    context: Any = get_context(START)
    jobs, results = context.Queue(), context.Queue()
    for cell in sorted(cells, key=lambda cell: -cell.case.n):
        jobs.put(cell)
    for _ in range(lanes):
        jobs.put(None)
    threads = max(1, (os.cpu_count() or 1) // lanes)
    given = (jobs, results, law, options, records, width, threads)
    started = [context.Process(target=_lane, args=given, daemon=True) for _ in range(lanes)]
    left = {(cell.method, cell.id): cell for cell in cells}
    try:
        for process in started:
            process.start()
        for row in _arriving(results.get, started):
            left.pop((row.method, row.cell), None)
            yield row
        for cell in left.values():
            yield failed_row(cell, "the process that played it ended; run `waggle eval` again")
    finally:
        jobs.cancel_join_thread()  # cells that nobody will draw must not keep this process
        for process in started:
            process.terminate()
            process.join()


def _arriving(receive: Callable[..., Any], started: Sequence[Any]) -> Iterator[Row]:
    """Yield rows until every lane has said that it is done, or has died."""
    done = 0
    while done < len(started):
        try:
            found = receive(timeout=POLL_SECONDS)
        except queue.Empty:
            if not any(process.is_alive() for process in started):
                return
            continue
        if isinstance(found, Row):
            yield found
        else:
            done += 1


def _lane(
    jobs: Any, results: Any, law: str, options: str, records: Path | None, width: int, threads: int
) -> None:
    """Play cells from the queue until it says that there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its lanes itself
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    for row in in_lockstep(iter(jobs.get, None), law_of(law, options), records, width):
        results.put(row)
    results.put(None)
