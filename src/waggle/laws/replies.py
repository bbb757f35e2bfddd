"""Replies of chat endpoints, and a file cache of them keyed by the content of the request.

The file is one SQLite database, safe for several threads and processes. Invariant: a damaged or
locked file disables the cache but never ends the episode.
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
"""How long to wait for another process's lock on the cache file before giving the cache up."""
MAX_COUNT = 10**9
"""Largest token count that is accepted for one call."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies"
    "(key TEXT PRIMARY KEY, text TEXT NOT NULL, sent INTEGER NOT NULL, received INTEGER NOT NULL)"
)


class Reply(NamedTuple):
    """The answer of an endpoint, and its token counts."""

    text: str
    input_tokens: int
    output_tokens: int
    calls: int = 1
    """0 for a cached reply."""

    @property
    def sound(self) -> bool:
        """Whether every field has a valid type and range; other programs wrote the data."""
        counts = (self.input_tokens, self.output_tokens)
        return isinstance(self.text, str) and all(
            type(count) is int and 0 <= count <= MAX_COUNT for count in counts
        )


class ReplyCache:
    """A cache of replies by request, in one SQLite file."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._lost = False
        """True after the first error; the file is not used again, since each access could block."""
        try:
            place = Path(path).expanduser()
            place.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(place, timeout=LOCK_SECONDS, check_same_thread=False)
            with self._database:
                self._database.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"cannot keep replies in {path!r} ({error}); name another file for the cache"
            ) from error

    @staticmethod
    def key(question: Mapping[str, Any]) -> str:
        """Return the key of a request: a digest of everything that may change its answer."""
        return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()

    def find(self, key: str) -> Reply | None:
        """Return a cached reply; a row that is not a valid reply is ignored."""
        with self._lock, self._careful():
            query = "SELECT text, sent, received FROM replies WHERE key = ?"
            row = None if self._lost else self._database.execute(query, (key,)).fetchone()
            reply = Reply(*row)._replace(calls=0) if row else None
            return reply if reply is not None and reply.sound else None
        return None

    def keep(self, key: str, reply: Reply) -> None:
        """Store a reply; a text with a lone surrogate cannot be stored and is skipped."""
        with self._lock, self._careful(), suppress(UnicodeError):
            if not self._lost:
                with self._database:
                    self._database.execute(
                        "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", (key, *reply[:3])
                    )

    @contextmanager
    def _careful(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error:
            self._lost = True
