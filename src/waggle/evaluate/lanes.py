"""Laws that want large batches: many episodes side by side, in this process or in several.

A lane is one process with its own engine that plays the cells dealt to it, as many at once as fill
its batch; lanes share a GPU, so that the host's work on views, drafts and worlds spreads over the
cores. Cells are dealt by cost: from a common queue the first lanes to start would fill their wide
batches with the longest episodes and end long after the others. Several laws are dealt together: a
lane has a few of them, one after the other, and starts once. Invariant: in float32 the rows do not
depend on width or lanes but for their count of model steps, since a law's answers do not depend on
what shares their batch (in bfloat16 a near-tie may fall otherwise in another batch). One bad
episode loses none of the others, one absent law no other law.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import get_context
from typing import Any, NamedTuple

from waggle.core.errors import WaggleError
from waggle.core.protocols import Law
from waggle.crew import end_with_parent
from waggle.engine import memory as sharing
from waggle.evaluate.costs import deal_laws
from waggle.evaluate.episodes import law_of, measured, open_engine, play_alone, reason_of
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row, failed_row
from waggle.evaluate.thin import Kept
from waggle.runtime.lockstep import play_together
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine

START = "spawn"
"""How lanes are started: afresh, since a process that has used a GPU cannot be forked."""
POLL_SECONDS = 2.0
"""How often a silent lane is looked after."""


Tell = Callable[["Part", str], None]
"""Called with the cells of a law that cannot be loaded, and why."""


class Absent(WaggleError):
    """A law whose weights cannot be loaded."""


class Part(NamedTuple):
    """Cells of one law."""

    law: str
    options: str
    cells: list[Cell]


class Missing(NamedTuple):
    """What a lane says of a part whose law cannot be loaded."""

    place: int
    """Of the law among those dealt."""
    reason: str


def ready(name: str, options: str) -> Law:
    """Return a law with its weights in memory.

    Raises:
        Absent: with the reason in one line.
    """
    made = law_of(name, options)
    load = getattr(made, "load", None)
    if load is not None:
        try:
            load()
        except Exception as error:  # whatever a loader raises, the law is not there
            raise Absent(reason_of(error)) from error
    return made


def in_lockstep(cells: Iterable[Cell], law: Law, records: Kept | None, width: int) -> Iterator[Row]:
    """Play many episodes side by side, so that the law sees large batches."""
    waiting, whole = iter(cells), False
    while not whole:
        playing: dict[int, tuple[Cell, Memory]] = {}
        unopened: list[Row] = []
        try:
            for engine, _ in play_together(_opened(waiting, law, playing, unopened), law, width):
                cell, memory = playing.pop(id(engine))
                yield _measured(cell, law, memory, records)
            whole = True
        except Exception:  # a bug in one episode or in the law: what was open is played alone
            for cell, _ in playing.values():
                yield play_alone(cell, law, records)
        yield from unopened


def _measured(cell: Cell, law: Law, memory: Memory, records: Kept | None) -> Row:
    """Measure an episode; what fails then is its own failure, not that of those beside it."""
    try:
        return measured(cell, law, memory.record(), records)
    except Exception as error:  # a broken metric must not lose the cell
        return failed_row(cell, reason_of(error))


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
    parts: Sequence[Part], records: Kept | None, width: int, lanes: int, tell: Tell
) -> Iterator[Row]:
    """Play cells in several processes, each with an engine of its own; rows come as they end.

    Args:
        parts: the laws with their cells.
        records: where records are kept, if they are.
        width: requests per batch.
        lanes: how many processes.
        tell: told, once, of every law that cannot be loaded; its cells give no rows.

    Raises:
        ConfigError: for a share of the GPU that is none.
    """
    sharing.share()  # a lane could only die of it
    context: Any = get_context(START)
    results = context.Queue()
    threads = max(1, (os.cpu_count() or 1) // lanes)
    hands = [hand for hand in _dealt(parts, lanes) if hand]
    started = [
        context.Process(
            target=_lane, args=(hand, results, records, width, threads, len(hands)), daemon=True
        )
        for hand in hands
    ]  # fmt: skip
    left = {(cell.method, cell.id): cell for part in parts for cell in part.cells}
    try:
        for process in started:
            process.start()
        for found in _arriving(results.get, started):
            if isinstance(found, Missing):
                lost = parts[found.place]
                dropped = [left.pop((cell.method, cell.id), None) for cell in lost.cells]
                if any(dropped):  # the first lane to say so
                    tell(lost, found.reason)
                continue
            left.pop((found.method, found.cell), None)
            yield found
        for cell in left.values():
            yield failed_row(cell, "the process that played it ended; run `waggle eval` again")
    finally:
        for process in started:
            process.terminate()
            process.join()


def _dealt(parts: Sequence[Part], lanes: int) -> list[list[tuple[int, Part]]]:
    """Give every lane its parts, each with the place of its law; late counterevidence first.

    A run that is cut short then has whole comparisons of what matters most to show.
    """
    hands: list[list[tuple[int, Part]]] = [[] for _ in range(lanes)]
    for late in (True, False):
        laws = [[cell for cell in part.cells if cell.case.shock == late] for part in parts]
        for hand, dealt in zip(hands, deal_laws(laws, lanes), strict=True):
            hand += [(k, parts[k]._replace(cells=some)) for k, some in dealt]
    return hands


def _arriving(receive: Callable[..., Any], started: Sequence[Any]) -> Iterator[Row | Missing]:
    """Yield what lanes tell until each has said that it is done, or has died."""
    done = 0
    while done < len(started):
        try:
            found = receive(timeout=POLL_SECONDS)
        except queue.Empty:
            if not any(process.is_alive() for process in started):
                return
            continue
        if isinstance(found, Row | Missing):
            yield found
        else:
            done += 1


def _lane(
    hand: Sequence[tuple[int, Part]], results: Any, records: Kept | None, width: int, threads: int,
    lanes: int,
) -> None:  # fmt: skip
    """Play the parts of one lane; say which laws cannot be loaded, and when it is at its end."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its lanes itself
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    last = None
    for place, part in hand:
        if last not in (None, place):
            law_of.cache_clear()  # the memory of one law is for the next
            gc.unfreeze()
            gc.collect()
        last = place
        try:
            made = ready(part.law, part.options)
        except Absent as error:
            results.put(Missing(place, str(error)))
            continue
        sharing.keep_to(lanes)
        for row in in_lockstep(part.cells, made, records, width):
            results.put(row)
        del made
    results.put(None)
