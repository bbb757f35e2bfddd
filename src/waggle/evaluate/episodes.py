"""Turn one cell into one row: open its world and law, play, measure, optionally keep the record.

A kept record may be thin. Nine tenths of a record are views and texts, which replay and training
read but no metric does; a thin record leaves them out. It gives the same row as the whole record,
but `waggle replay` refuses it.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from waggle import plugin_files, plugins
from waggle.core.errors import WaggleError
from waggle.core.protocols import Law
from waggle.core.record import EpisodeRecord, UpdateRecord
from waggle.evaluate.code import code_of
from waggle.evaluate.failures import why_failed
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import Row, failed_row, row_of
from waggle.extras import missing
from waggle.laws.digest import digest_of
from waggle.runtime.defence import Defence
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.live import LiveFile, live_path
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory, Sink
from waggle.runtime.records import SUFFIX, RecordFile
from waggle.runtime.replay import UNSEEN
from waggle.runtime.sync import Engine, native_switches
from waggle.shards.cluster import on_ray
from waggle.workers.hire import hire

RECORDS = "records"
"""Folder of a run's record files, if they are kept."""
SHARDS = "shards"
"""Folder of the saved states of unfinished cells that are played in shards."""
MAX_REASON = 500
"""Maximum length of the failure reason in a row, in characters."""


class RecordFolder(NamedTuple):
    """The folder of records, whether they are thin, and whether they can be watched live."""

    path: Path
    thin: bool = False
    live: bool = False

    def write(self, cell: Cell, episode: EpisodeRecord) -> None:
        """Write the record of a cell; a thin one is compressed more, being for transfer."""
        kept = thin(episode) if self.thin else episode
        with RecordFile(record_path(self.path, cell), level=6 if self.thin else 1) as sink:
            sink.header(kept.header)
            for entry in kept.rounds:
                sink.round(entry)
            sink.footer(kept.footer)

    def forget(self, cell: Cell) -> None:
        """Remove the live record of a finished cell."""
        if self.live:
            live_path(record_path(self.path, cell)).unlink(missing_ok=True)


def record_path(folder: Path, cell: Cell) -> Path:
    """Return the path of a cell's record."""
    return folder / f"{cell.method}_{cell.id}{SUFFIX}"


def thin(episode: EpisodeRecord) -> EpisodeRecord:
    """Return an episode without its views, texts and random numbers."""
    rounds = tuple(
        msgspec.structs.replace(entry, updates=tuple(map(_thin_update, entry.updates)))
        for entry in episode.rounds
    )
    return EpisodeRecord(episode.header, rounds, episode.footer)


def _thin_update(update: UpdateRecord) -> UpdateRecord:
    decision = msgspec.structs.replace(update.decision, deposits=())
    return msgspec.structs.replace(update, view=UNSEEN, entropy=0, raw=(), decision=decision)


@cache
def law_of(name: str, options: str) -> Law:
    """Return a law, created once per process; its options are JSON text."""
    return plugins.get_law(name, **msgspec.json.decode(options))


def options_of(cell: Cell, batch: int | None = None) -> str:
    """Return the options of a cell's law as JSON text.

    A batch size affects how a law runs but not its decisions, so it is not part of a cell; it is
    added here for laws that accept one.
    """
    options = dict(cell.law_options)
    if batch is not None and "max_rows" in plugins.law_options(cell.law):
        options.setdefault("max_rows", batch)
    return msgspec.json.encode(options, order="sorted").decode()


def open_engine(
    cell: Cell, law: Law, memory: Memory, records: RecordFolder | None = None
) -> Engine:
    """Return the engine of a cell, ready to play; its switches override those of the law."""
    world = plugins.get_substrate(cell.case.substrate).open(cell.case)
    sinks: list[Sink] = [memory]
    if records is not None and records.live:
        sinks.append(LiveFile(record_path(records.path, cell), world))
    kind = EventEngine if cell.engine == "event" else Engine
    return kind(
        world,
        law,
        cell.case,
        order=cell.order,  # type: ignore[arg-type]
        switches=msgspec.structs.replace(native_switches(law, world), **cell.switches),
        perturbation=msgspec.convert(cell.perturbation, Perturbation),
        defence=msgspec.convert(cell.defence, Defence),
        sinks=sinks,
        staff=hire(**cell.worker) if cell.worker else None,
    )


def play_cell(job: tuple[Cell, RecordFolder | None]) -> Row:
    """Play one cell in this process, with the law it names."""
    cell, records = job
    return play_alone(cell, law_of(cell.law, options_of(cell)), records)


def play_in_shards(cell: Cell, records: RecordFolder | None, folder: Path) -> Row:
    """Play one cell on Ray; after an interruption it resumes from the state in `folder`."""
    law = law_of(cell.law, options_of(cell))
    return play_alone(cell, law, records, folder / f"{cell.method}_{cell.id}")


def play_alone(
    cell: Cell, law: Law, records: RecordFolder | None, shards: Path | None = None
) -> Row:
    """Play and measure one cell; after an unexpected error retry once, then return a failed row.

    If `shards` is given, the cell is played in shards that save their states in that folder.
    """
    reason = ""
    for _ in range(2):
        try:
            memory = Memory()
            if shards is None:
                open_engine(cell, law, memory, records).play()
            else:
                _play_on_ray(cell, law, memory, shards)
            return measured(cell, law, memory.record(), records)
        except WaggleError as error:
            return failed_row(cell, reason_of(error))
        except plugin_files.FAULTS as error:  # a broken plug-in must not lose the other cells
            reason = reason_of(error)
        finally:
            if records is not None:
                records.forget(cell)
    return failed_row(cell, reason)


def _play_on_ray(cell: Cell, law: Law, memory: Memory, folder: Path) -> None:
    engine = open_engine(cell, law, memory)
    played = on_ray(
        engine.world, law, partial(law_of, cell.law, options_of(cell)),
        plugins.get_substrate(cell.case.substrate).open, cell.case, folder=folder,
        shards=cell.shards, order=engine.order, switches=engine.swarm.switches,
        perturbation=engine.perturbation, defence=engine.defence,
    )  # fmt: skip
    played.play([memory])
    played.clear()


def reason_of(error: BaseException) -> str:
    """Return in one line why a cell failed."""
    absent = missing(error.name) if isinstance(error, ModuleNotFoundError) else None
    text = str(error) if isinstance(error, WaggleError) else absent or plugin_files.raised(error)
    return " ".join(text.split())[:MAX_REASON]


def measured(cell: Cell, law: Law, episode: EpisodeRecord, records: RecordFolder | None) -> Row:
    """Return the row of an episode that a law played; keep its record if requested.

    An episode with too many failed calls gives a failed row. Its record is not kept, nor that of an
    episode whose scores are not numbers.
    """
    failed = why_failed(law, episode.footer.counters)
    if failed:
        return failed_row(cell, failed[:MAX_REASON], episode.footer.counters)
    row = row_of(cell, episode, digest_of(law), code_of(cell))
    if records is not None:
        records.write(cell, episode)
    return row
