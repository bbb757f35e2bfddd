"""A memory of endpoint replies in one SQLite file, so that a question is paid for once.

Safe for several threads and processes. A damaged or locked file costs the memory, never the
episode: lookups then miss and stores are dropped, and after the first the file is left alone, for
waiting on its lock takes as long every time. A row that is no reply is not believed.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from waggle.core.errors import ConfigError

LOCK_SECONDS = 10.0
"""How long another process may hold the file before this one does without."""
MAX_COUNT = 10**9
"""Tokens that one call may claim to have cost."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies"
    "(key TEXT PRIMARY KEY, text TEXT NOT NULL, sent INTEGER NOT NULL, received INTEGER NOT NULL)"
)


class Reply(NamedTuple):
    """What an endpoint said, and its token counts."""

    text: str
    input_tokens: int
    output_tokens: int

    @property
    def sound(self) -> bool:
        """Whether it is what it should be: other programs wrote it."""
        counts = (self.input_tokens, self.output_tokens)
        return isinstance(self.text, str) and all(
            type(count) is int and 0 <= count <= MAX_COUNT for count in counts
        )


def key(question: Mapping[str, Any]) -> str:
    """Return the name of a question: everything that may change its answer."""
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


class Replies:
    """The memory itself."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._lost = False
        try:
            place = Path(path).expanduser()
            place.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(place, timeout=LOCK_SECONDS, check_same_thread=False)
            with self._database:
                self._database.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"cannot keep replies in {path!r} ({error}); give --law.cache another file"
            ) from error

    def find(self, name: str) -> Reply | None:
        """Return a kept reply."""
        with self._lock, self._careful():
            query = "SELECT text, sent, received FROM replies WHERE key = ?"
            row = None if self._lost else self._database.execute(query, (name,)).fetchone()
            reply = Reply(*row) if row else None
            return reply if reply is not None and reply.sound else None
        return None

    def keep(self, name: str, reply: Reply) -> None:
        """Keep a reply, if it is one that a file can hold: a lone surrogate is not."""
        with self._lock, self._careful(), suppress(UnicodeError):
            if not self._lost:
                with self._database:
                    self._database.execute(
                        "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", (name, *reply)
                    )

    @contextmanager
    def _careful(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error:
            self._lost = True
