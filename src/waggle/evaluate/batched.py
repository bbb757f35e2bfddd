"""Play laws that want large batches: many episodes at once, in this process or in several.

Several processes may share a GPU, each with its own engine, so that the host's work on views and
worlds is spread over the cores. Cells are assigned to processes by cost in advance: with a common
queue, the first processes to start would fill their wide batches with the longest episodes and end
long after the others. Several laws are assigned together: a process starts once and plays a few.

In float32 the rows do not depend on width or processes, except for their count of model steps,
since a law's answers do not depend on the other requests in the batch. In bfloat16 a near-tie may
be decided differently in another batch. A failed episode or law does not affect the others.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeAlias

from waggle.core.errors import WaggleError
from waggle.core.protocols import Law
from waggle.engine import memory as gpu_memory
from waggle.evaluate.episodes import (
    RecordFolder,
    law_of,
    measured,
    open_engine,
    play_alone,
    reason_of,
)
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row, failed_row
from waggle.evaluate.selection import cost
from waggle.plugin_files import FAULTS
from waggle.process_pool import end_with_parent
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine, play_together

START = "spawn"
"""Start method of processes; a process that has used a GPU cannot be forked."""
POLL_SECONDS = 2.0
"""Interval at which the parent checks that processes without a report are alive."""


class LawUnavailable(WaggleError):
    """Raised when the weights of a law cannot be loaded."""


class LawCells(NamedTuple):
    """The cells of one law."""

    law: str
    options: str
    cells: list[Cell]

    @property
    def methods(self) -> list[str]:
        """The methods of the cells."""
        return list(dict.fromkeys(cell.method for cell in self.cells))


LeftOut: TypeAlias = Callable[[Sequence[str], str], None]
"""Callback for a law that is not played; receives its methods and the reason."""


class Unavailable(NamedTuple):
    """A process's report that it cannot load a law."""

    place: int
    """Index of the law among all that are distributed."""
    reason: str


def load_law(name: str, options: str) -> Law:
    """Return a law with its weights in memory, or raise `LawUnavailable` with the reason."""
    made = law_of(name, options)
    load = getattr(made, "load", None)
    if load is not None:
        try:
            load()
        except FAULTS as error:  # whatever a loader raises, the law cannot be played
            raise LawUnavailable(reason_of(error)) from error
    return made


def play_batched(
    cells: Iterable[Cell], law: Law, records: RecordFolder | None, width: int
) -> Iterator[Row]:
    """Play many episodes side by side, so that the law sees large batches."""
    waiting, finished = iter(cells), False
    while not finished:
        playing: dict[int, tuple[Cell, Memory]] = {}
        unopened: list[Row] = []
        try:
            for engine, _ in play_together(
                _opened(waiting, law, records, playing, unopened), law, width
            ):
                cell, memory = playing.pop(id(engine))
                yield _measured(cell, law, memory, records)
            finished = True
        except FAULTS:  # a bug in an episode or the law: play the open episodes alone
            for cell, _ in playing.values():
                yield play_alone(cell, law, records)
        yield from unopened


def _measured(cell: Cell, law: Law, memory: Memory, records: RecordFolder | None) -> Row:
    """Measure an episode; a failure does not affect the others in the batch."""
    try:
        return measured(cell, law, memory.record(), records)
    except FAULTS as error:  # a broken metric must not lose the cell
        return failed_row(cell, reason_of(error))
    finally:
        if records is not None:
            records.forget(cell)


def _opened(
    waiting: Iterator[Cell],
    law: Law,
    records: RecordFolder | None,
    playing: dict[int, tuple[Cell, Memory]],
    unopened: list[Row],
) -> Iterator[Engine]:
    """Yield opened episodes; a case that cannot be opened becomes a failed row."""
    for cell in waiting:
        memory = Memory()
        try:
            engine = open_engine(cell, law, memory, records)
        except FAULTS as error:  # the others go on
            unopened.append(failed_row(cell, reason_of(error)))
            continue
        playing[id(engine)] = (cell, memory)
        yield engine


def play_in_processes(
    laws: Sequence[LawCells],
    records: RecordFolder | None,
    width: int,
    processes: int,
    left_out: LeftOut,
) -> Iterator[Row]:
    """Play cells in several processes, each with its own engine; yield rows as episodes end.

    A law that cannot be loaded is reported once to `left_out`; its cells give no rows.
    """
    gpu_memory.share()  # raises on a wrong setting here rather than in the processes
    context: Any = get_context(START)
    results = context.Queue()
    threads = max(1, (os.cpu_count() or 1) // processes)
    shares = [share for share in _shares(laws, processes) if share]
    started = [
        context.Process(
            target=_play_share,
            args=(share, results, records, width, threads, len(shares)),
            daemon=True,
        )
        for share in shares
    ]
    left = {cell.key: cell for law in laws for cell in law.cells}
    try:
        for process in started:
            process.start()
        for found in _reports(results.get, started):
            if isinstance(found, Unavailable):
                lost = laws[found.place]
                dropped = [left.pop(cell.key, None) for cell in lost.cells]
                if any(dropped):  # only on the first report of this law
                    left_out(lost.methods, found.reason)
                continue
            left.pop(found.key, None)
            yield found
        for cell in left.values():
            yield failed_row(cell, "the process that played it ended; run `waggle eval` again")
    finally:
        for process in started:
            process.terminate()
            process.join()


def _shares(laws: Sequence[LawCells], processes: int) -> list[list[tuple[int, LawCells]]]:
    """Return the cells of every process, with their laws' indices; late counterevidence first.

    An interrupted run then has complete comparisons of the most important cells.
    """
    shares: list[list[tuple[int, LawCells]]] = [[] for _ in range(processes)]
    for late in (True, False):
        cells = [[cell for cell in law.cells if cell.case.shock == late] for law in laws]
        for share, part in zip(shares, share_out(cells, processes), strict=True):
            share += [(place, laws[place]._replace(cells=some)) for place, some in part]
    return shares


def share_out(laws: Sequence[Sequence[Cell]], processes: int) -> list[list[tuple[int, list[Cell]]]]:
    """Distribute the cells of several laws so that processes end together and load few laws.

    The cells of a single law are assigned by cost, the costliest first, to the process with the
    lowest load. Several laws are concatenated in the given order and cut into parts of equal cost.

    Returns:
        for every process the indices of its laws, each with its cells, the costliest first.
    """
    queued = [(place, cell, cost(cell)) for place, cells in enumerate(laws) for cell in cells]
    parts: list[dict[int, list[Cell]]] = [{} for _ in range(processes)]
    loads = [0.0] * processes
    costliest_first = sorted(range(len(queued)), key=lambda k: -queued[k][2])
    owner = _cut([price for *_, price in queued], processes) if sum(map(bool, laws)) > 1 else None
    for k in costliest_first:
        place, cell, price = queued[k]
        process = min(range(processes), key=loads.__getitem__) if owner is None else owner[k]
        parts[process].setdefault(place, []).append(cell)
        loads[process] += price
    return [sorted(part.items()) for part in parts]


def _cut(prices: Sequence[float], parts: int) -> list[int]:
    """Cut a list of costs into parts of about equal sum; return the part index of each cost."""
    share, passed, owner = sum(prices) / parts, 0.0, []
    for price in prices:
        owner.append(min(parts - 1, int((passed + price / 2) / share)) if share else 0)
        passed += price
    return owner


def _reports(receive: Callable[..., Any], started: Sequence[Any]) -> Iterator[Row | Unavailable]:
    """Yield the reports of the processes until each has ended or died."""
    done = 0
    while done < len(started):
        # Asked before waiting: what a process reports just before it ends is still received.
        ended = not any(process.is_alive() for process in started)
        try:
            found = receive(timeout=POLL_SECONDS)
        except queue.Empty:
            if ended:
                return
            continue
        if isinstance(found, Row | Unavailable):
            yield found
        else:
            done += 1


def _play_share(
    share: Sequence[tuple[int, LawCells]],
    results: Any,
    records: RecordFolder | None,
    width: int,
    threads: int,
    processes: int,
) -> None:
    """Play the cells of one process; report rows, laws that cannot be loaded, and the end."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent terminates its processes
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    last = None
    for place, part in share:
        if last not in (None, place):
            law_of.cache_clear()  # free the memory of one law for the next
            gc.unfreeze()
            gc.collect()
        last = place
        try:
            law = load_law(part.law, part.options)
        except LawUnavailable as error:
            results.put(Unavailable(place, str(error)))
            continue
        gpu_memory.keep_to(processes)
        for row in play_batched(part.cells, law, records, width):
            results.put(row)
        del law
    results.put(None)
