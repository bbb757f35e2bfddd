"""A bounded memory of endpoint replies in one SQLite file, so that a question is paid for once.

Safe for several threads and processes. A damaged or locked file costs the memory, never the
episode: lookups then miss and stores are dropped.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from waggle.core.errors import ConfigError

_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies"
    "(key TEXT PRIMARY KEY, text TEXT NOT NULL, sent INTEGER NOT NULL, received INTEGER NOT NULL)"
)


class Reply(NamedTuple):
    """What an endpoint said, and its token counts."""

    text: str
    input_tokens: int
    output_tokens: int


def key(question: Mapping[str, Any]) -> str:
    """Return the name of a question: everything that may change its answer."""
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


class Replies:
    """The memory itself."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        try:
            place = Path(path).expanduser()
            place.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(place, timeout=10, check_same_thread=False)
            with self._database:
                self._database.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"cannot keep replies in {path!r} ({error}); give --law.cache another file"
            ) from error

    def find(self, name: str) -> Reply | None:
        """Return a kept reply."""
        with self._lock, suppress(sqlite3.Error):
            query = "SELECT text, sent, received FROM replies WHERE key = ?"
            row = self._database.execute(query, (name,)).fetchone()
            return Reply(*row) if row else None
        return None

    def keep(self, name: str, reply: Reply) -> None:
        """Keep a reply, if it is one that a file can hold: a lone surrogate is not."""
        with self._lock, suppress(sqlite3.Error, UnicodeError), self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", (name, *reply)
            )
