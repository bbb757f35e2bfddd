"""Thin records: everything that measures read of an episode, and nothing that models read.

Nine tenths of a record are views and texts, which replay and training need and no measure does. A
thin record leaves them out. Invariant: its row is that of the whole record, so that tables come
from it without a model; it cannot be replayed, and says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from waggle.core.record import EpisodeRecord, RoundRecord, UpdateRecord
from waggle.runtime.records import RecordFile
from waggle.runtime.replay import UNSEEN


class Kept(NamedTuple):
    """Where records are kept, and how."""

    folder: Path
    thin: bool = False

    def write(self, path: Path, episode: EpisodeRecord) -> None:
        """Write an episode; a thin one is packed tighter, since it is made to travel."""
        shown = thin(episode) if self.thin else episode
        with RecordFile(path, level=6 if self.thin else 1) as sink:
            sink.header(shown.header)
            for entry in shown.rounds:
                sink.round(entry)
            sink.footer(shown.footer)


def thin(episode: EpisodeRecord) -> EpisodeRecord:
    """Return an episode without its views, texts and drawn numbers."""
    return EpisodeRecord(episode.header, tuple(map(_round, episode.rounds)), episode.footer)


def _round(entry: RoundRecord) -> RoundRecord:
    return msgspec.structs.replace(entry, updates=tuple(map(_update, entry.updates)))


def _update(update: UpdateRecord) -> UpdateRecord:
    return msgspec.structs.replace(
        update, view=UNSEEN, entropy=0, raw=(),
        decision=msgspec.structs.replace(update.decision, deposits=()),
    )  # fmt: skip
