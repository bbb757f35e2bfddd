"""Records of running episodes, read incrementally while they grow.

`LiveRecords` caches the two records that were requested last, each as the document that the page
plays, with the offsets of its rounds in the file; views and prompts are read on request.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import msgspec

from waggle.core.errors import RecordError
from waggle.core.record import Footer, Header, RoundRecord
from waggle.runtime.live import Place
from waggle.runtime.records import MAX_LINE
from waggle.view.decisions import readable
from waggle.view.episode import Document, Round
from waggle.view.scene import scene

MAX_HELD = 2
"""Growing records that are held in memory."""
MAX_STEP = 32 << 20
"""Bytes read for one response; the rest is read for the next ones."""
_decoder: msgspec.json.Decoder[Header | Round | Footer | Place] = msgspec.json.Decoder(
    Header | Round | Footer | Place
)
_round = msgspec.json.Decoder(RoundRecord)
_UNREADABLE = "the growing record cannot be read; wait for its end"
Answer = TypeVar("Answer")


class LiveRecord:
    """The record of one running episode."""

    def __init__(self, path: Path) -> None:
        """Open the record without reading any of it."""
        self._path = path
        self._inode = os.stat(path).st_ino
        self._end = 0
        self._rounds: list[tuple[int, int]] = []
        """Offset and length of each round's line."""
        self._places: list[Place] = []
        self._made: Document | None = None
        self._scene: dict[str, Any] = {}

    def replaced(self) -> bool:
        """Return whether the file was replaced because its episode was restarted."""
        now = os.stat(self._path)
        return now.st_ino != self._inode or now.st_size < self._end

    def _read(self) -> None:
        with open(self._path, "rb") as file:
            file.seek(self._end)
            data = file.read(MAX_STEP)
            if data and b"\n" not in data:
                data += file.readline(MAX_LINE)
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            self._take(line)
            self._end += len(line)

    def _take(self, line: bytes) -> None:
        try:
            entry = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise RecordError(_UNREADABLE) from None
        if isinstance(entry, Header):
            self._made = Document("the episode", entry)
            self._scene = scene(entry, self._made.n, ())
        elif self._made is None:
            raise RecordError("the growing record does not start with a header")
        elif isinstance(entry, Place):
            self._places.append(entry)
        elif isinstance(entry, Round):
            self._made.add(entry)
            self._rounds.append((self._end, len(line)))

    def document(self) -> dict[str, Any]:
        """Return the episode up to its latest round."""
        rounds, made = self.since(0), self._made
        if rounds is None or made is None or not made.rounds:
            return {"live": True, "rounds": []}
        drawn = {"kind": "grid"} if self._places else self._scene
        names = list(made.rounds[0]["score"])
        return {**made.facts(names), **rounds, "scene": drawn | self._maps(0)}

    def since(self, start: int) -> dict[str, Any] | None:
        """Return the rounds from `start` to the current end of the file.

        None if there are fewer rounds: the episode was restarted, and the page must reload it.
        """
        self._read()
        if start > len(self._rounds) or self._made is None:
            return None
        return {**self._made.since(start), "live": True, "scene": self._maps(start)}

    def _maps(self, start: int) -> dict[str, Any]:
        if not self._places:
            return {}
        # A map is written before its round, so the last one may have no round yet.
        places = self._places[start : len(self._rounds)]
        return {"maps": [p.map for p in places], "cells": [p.cells for p in places]}

    def update(self, round: int, agent: int) -> list[dict[str, Any]]:
        """Return the decision of an agent in readable form.

        Raises:
            RecordError: if the round does not exist yet or cannot be read.
        """
        if self._made is None or not 0 <= round < len(self._rounds):
            raise RecordError(f"there is no round {round} yet")
        offset, length = self._rounds[round]
        with open(self._path, "rb") as file:
            file.seek(offset)
            line = file.read(length)
        try:
            entry = _round.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise RecordError(_UNREADABLE) from None
        return readable(self._made.header, entry, agent)


class LiveRecords:
    """A cache of the growing records that pages are showing."""

    def __init__(self) -> None:
        self._held: OrderedDict[Path, LiveRecord] = OrderedDict()
        self._lock = Lock()

    def ask(self, path: Path, question: Callable[[LiveRecord], Answer]) -> Answer | None:
        """Apply a callable to a growing record; return None if its file has just been finished."""
        with self._lock:
            try:
                return question(self._found(path))
            except FileNotFoundError:
                return None

    def _found(self, path: Path) -> LiveRecord:
        held = self._held.pop(path, None)
        if held is None or held.replaced():
            held = LiveRecord(path)
        self._held[path] = held
        while len(self._held) > MAX_HELD:
            self._held.popitem(last=False)
        return held
