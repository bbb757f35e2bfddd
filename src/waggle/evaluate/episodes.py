"""One cell becomes one row: open its world and law, play, measure, keep the record if asked to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from waggle import plugins
from waggle.core.errors import WaggleError
from waggle.core.protocols import Law
from waggle.core.record import EpisodeRecord
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row, failed_row, row_of
from waggle.evaluate.thin import Kept
from waggle.laws.digest import digest_of
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory, Sink
from waggle.runtime.records import SUFFIX
from waggle.runtime.sync import Engine, native_switches

MAX_REASON = 500
"""Characters that a row keeps of why its cell failed."""


@cache
def law_of(name: str, options: str) -> Law:
    """Return a law, made once per process; its options are JSON text."""
    return plugins.get_law(name, **msgspec.json.decode(options))


def options_of(cell: Cell, rows: int | None = None) -> str:
    """Return the options of a cell's law as JSON text.

    A batch size says how a law is run and not what it decides, so it is no part of a cell: it is
    added here for laws that take one.
    """
    options = dict(cell.law_options)
    if rows is not None and "max_rows" in plugins.law_options(cell.law):
        options.setdefault("max_rows", rows)
    return msgspec.json.encode(options, order="sorted").decode()


def open_engine(cell: Cell, law: Law, sinks: Iterable[Sink]) -> Engine:
    """Return the engine of a cell, ready to play; ablations change the law's own setting."""
    world = plugins.get_substrate(cell.case.substrate).open(cell.case)
    kind = EventEngine if cell.engine == "event" else Engine
    return kind(
        world,
        law,
        cell.case,
        order=cell.order,  # type: ignore[arg-type]
        switches=msgspec.structs.replace(native_switches(law, world), **cell.switches),
        perturbation=msgspec.convert(cell.perturbation, Perturbation),
        sinks=list(sinks),
    )


def play_cell(job: tuple[Cell, Kept | None]) -> Row:
    """Play one cell with the law it names."""
    cell, records = job
    return play_alone(cell, law_of(cell.law, options_of(cell)), records)


def play_alone(cell: Cell, law: Law, records: Kept | None) -> Row:
    """Play one cell and measure it; a failure is tried once more, then becomes its row."""
    reason = ""
    for _ in range(2):
        try:
            memory = Memory()
            open_engine(cell, law, [memory]).play()
            return measured(cell, law, memory.record(), records)
        except WaggleError as error:
            return failed_row(cell, reason_of(error))
        except Exception as error:  # a broken plug-in must not lose the other cells
            reason = reason_of(error)
    return failed_row(cell, reason)


def reason_of(error: Exception) -> str:
    """Say in one line why a cell failed."""
    text = str(error) if isinstance(error, WaggleError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:MAX_REASON]


def measured(cell: Cell, law: Law, episode: EpisodeRecord, records: Kept | None) -> Row:
    """Measure an episode that a law played, and keep its record where records are kept."""
    if records is not None:
        records.write(record_path(records.folder, cell), episode)
    return row_of(cell, episode, digest_of(law))


def record_path(records: Path, cell: Cell) -> Path:
    """Return where a cell's record lies."""
    return records / f"{cell.method}_{cell.id}{SUFFIX}"
