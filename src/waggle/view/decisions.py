"""One decision in readable form: what the agent saw, said and did.

The two most recent small records are cached in memory; a large one is read again for each request.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from waggle.api import show
from waggle.core import prompt
from waggle.core.admit import CODES
from waggle.core.errors import RecordError, WaggleError
from waggle.core.record import EpisodeRecord, Header, RoundRecord, UpdateRecord
from waggle.runtime.records import entries, read
from waggle.runtime.replay import UNSEEN, view_of
from waggle.view.library import cut

MAX_FILE = 64 << 20
"""Largest record that is shown, in bytes."""
MAX_HELD = 4 << 20
"""Largest record that is held whole in memory, in bytes."""
MAX_RAW = 20_000
"""Characters shown of a decode, a slot or a prompt."""


@lru_cache(maxsize=2)
def _held(path: Path, stamp: tuple[int, int]) -> EpisodeRecord:
    return read(path)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError as error:
        raise RecordError(f"cannot read {path.name} ({error.strerror}); reload the page") from None
    if stat.st_size > MAX_FILE:
        raise RecordError(
            f"{path.name} has {stat.st_size >> 20} MB, the viewer shows records up to "
            f"{MAX_FILE >> 20} MB; `waggle show` reads larger ones"
        )
    return stat.st_mtime_ns, stat.st_size


def small(path: Path) -> bool:
    """Return whether a record is small enough to be held whole in memory.

    Raises:
        RecordError: if the file is missing or too large to be shown.
    """
    return _stamp(path)[1] <= MAX_HELD


def whole(path: Path) -> EpisodeRecord:
    """Return the record of a small file, cached for the next request."""
    return _held(path, _stamp(path))


def updates(path: Path, round: int, agent: int | None = None) -> list[dict[str, Any]]:
    """Return all decisions of a round, or only that of one agent, in readable form.

    Raises:
        RecordError: if the round does not exist, or for the reasons of `episode.document`.
    """
    if small(path):
        record = whole(path)
        header, rounds = record.header, iter(record.rounds[max(0, round) : round + 1])
    else:
        stream = entries(path)
        first = next(stream, None)
        if not isinstance(first, Header):
            raise RecordError(f"{path.name} does not start with a record header")
        header = first
        rounds = (e for e in stream if isinstance(e, RoundRecord) and e.round == round)
    entry = next(rounds, None)
    if entry is None:
        raise RecordError(f"there is no round {round} in this record")
    return readable(header, entry, agent)


def readable(header: Header, entry: RoundRecord, agent: int | None) -> list[dict[str, Any]]:
    """Return all decisions of a round, or only that of one agent, in readable form."""
    return [_update(header, u) for u in entry.updates if agent in (None, u.node)]


def _update(header: Header, update: UpdateRecord) -> dict[str, Any]:
    found: dict[str, Any] = {
        "agent": update.node, "mode": cut(update.mode), "stage": show.STAGES[update.stage],
        "raw": [cut(show.said(raw), MAX_RAW) for raw in update.raw],
        "codes": [(cut(code), CODES.get(code, "")) for code in update.codes],
        "decision": _pairs(show.decision(update.decision)),
        "did": _pairs(show.did(update)),
        "saw": None,
    }  # fmt: skip
    if update.view == UNSEEN:
        return found
    try:
        view = view_of(header, update)
        slots = _pairs(show.slots(view))
    except (ValueError, RecursionError, msgspec.MsgspecError, WaggleError):
        return found | {"saw": [("view", "cannot be read")]}
    last = len(slots) - 2  # the traces are followed by commitment and budget
    first = last - len(view.traces)
    found["saw"] = slots[:first] + slots[last:]
    found["traces"] = [
        (text, cut(trace.claim), cut(trace.channel))
        for (_, text), trace in zip(slots[first:last], view.traces, strict=True)
    ]
    found["tail"] = cut(prompt.tail(view), MAX_RAW)
    return found


def _pairs(pairs: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(cut(name), cut(text, MAX_RAW)) for name, text in pairs]
