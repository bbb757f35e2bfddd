"""The client of an OpenAI-compatible endpoint: bounded questions, and a cache of replies.

The SDK retries what is worth retrying and honours Retry-After. On top of it an answer has a size
limit and a time limit, and the whole call a deadline, so that neither a megabyte of text nor a
trickle of bytes can stop a swarm. Replies can be cached in one SQLite file, safe for several
threads and processes; a damaged or locked file costs the cache, never the episode.
Invariant: `ask` returns a reply or None, and never raises for what a server did.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from waggle.core.errors import ConfigError
from waggle.extras import install

MAX_BODY = 256 * 1024
"""Bytes of a response that are read; a longer one counts as a failure."""
LONGEST_WAIT = 120.0
"""Seconds of Retry-After that the SDK honours; a server that asks for more has failed."""
LOCK_SECONDS = 10.0
"""How long another process may hold the cache file before this one does without it."""
MAX_COUNT = 10**9
"""Tokens that one call may claim to have cost."""
_LOG = logging.getLogger(__name__)
_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies"
    "(key TEXT PRIMARY KEY, text TEXT NOT NULL, sent INTEGER NOT NULL, received INTEGER NOT NULL)"
)


class Reply(NamedTuple):
    """The answer of an endpoint, and its token counts."""

    text: str
    input_tokens: int
    output_tokens: int

    @property
    def sound(self) -> bool:
        """Whether every field has its type and range: other programs wrote it."""
        counts = (self.input_tokens, self.output_tokens)
        return isinstance(self.text, str) and all(
            type(count) is int and 0 <= count <= MAX_COUNT for count in counts
        )


class Endpoint:
    """A chat-completions server with time-outs, retries and a circuit breaker."""

    def __init__(
        self, base_url: str, api_key: str, timeout: float, retries: int, patience: int
    ) -> None:
        try:
            openai: Any = import_module("openai")
        except ImportError as error:
            raise ConfigError(
                f"this law needs the openai package; install it with `{install('chat')}`"
            ) from error
        self._status: Any = openai.APIStatusError
        try:
            self._client: Any = openai.OpenAI(
                base_url=base_url, api_key=api_key, timeout=timeout, max_retries=retries
            )
        except Exception as error:  # the HTTP library below has its own rules for addresses
            raise ConfigError(f"base_url {base_url!r} is no address ({error}); mend it") from error
        weakref.finalize(self, self._client.close)
        self._timeout = timeout
        # Every attempt may take its time for the head and again for the body of the answer.
        self._deadline = 2 * timeout * (retries + 1) + LONGEST_WAIT * retries
        self._pause = timeout * (retries + 1)
        self._patience = patience
        self._host = urlsplit(base_url).hostname
        self._warned = False
        self._overdue = 0
        self._failures = 0
        self._resume = 0.0
        self._lock = threading.Lock()
        self.formats = True
        """Whether the server takes `response_format`; False after its first refusal."""

    def ask(self, question: dict[str, Any]) -> Reply | None:
        """Ask a question; None where the endpoint is dead, refuses, or answers out of bounds."""
        if not self._worth_asking():
            return None
        try:
            reply = self._in_time(question)
        except self._status as error:
            if error.status_code not in (400, 422) or not question.get("response_format"):
                self._failed(f"{type(error).__name__} {error.status_code}")
                return None
            plain = {name: value for name, value in question.items() if name != "response_format"}
            again = self.ask(plain)
            if again is not None:  # else the refusal was about something else
                self.formats = False
            return again
        except Exception as error:  # transports differ between SDK releases
            self._failed(type(error).__name__)
            return None
        with self._lock:
            self._failures = 0
        return reply

    def _in_time(self, question: dict[str, Any]) -> Reply:
        """Ask in a thread of its own, which is abandoned once it is overdue.

        The time-outs of a transport hold for one read each: a server that sends its head byte by
        byte never meets them, and only the thread that reads can end the reading.
        """
        answer: Future[Reply] = Future()

        def run() -> None:
            try:
                answer.set_result(self._once(question))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        try:
            return answer.result(self._deadline)
        except TimeoutError:
            self._count_overdue(1)
            answer.add_done_callback(lambda _: self._count_overdue(-1))
            raise

    def _count_overdue(self, change: int) -> None:
        with self._lock:
            self._overdue += change

    def _once(self, question: dict[str, Any]) -> Reply:
        body = b""
        with self._client.chat.completions.with_streaming_response.create(**question) as response:
            stop = time.monotonic() + self._timeout
            for block in response.iter_bytes():
                body += block
                if len(body) > MAX_BODY:
                    raise ValueError("the answer is longer than a decision can be")
                if time.monotonic() > stop:
                    raise TimeoutError
        return _completion(json.loads(body))

    def _worth_asking(self) -> bool:
        """Whether the circuit is closed: a dead endpoint is left alone for a while."""
        with self._lock:
            if self._overdue >= self._patience:
                return False
            return self._failures < self._patience or time.monotonic() >= self._resume

    def _failed(self, reason: str) -> None:
        """Count a failure and log the first: a wrong key or address fails every time."""
        with self._lock:
            first, self._warned = not self._warned, True
            self._failures += 1
            self._resume = time.monotonic() + self._pause
        if first:
            _LOG.warning(
                "the endpoint at %s failed (%s); nodes without an answer keep the private proposal",
                self._host, reason,
            )  # fmt: skip


def _completion(data: Any) -> Reply:
    """Read a chat completion; anything else is a ValueError."""
    try:
        text = data["choices"][0]["message"]["content"]
        usage = data.get("usage") or {}
        sent, received = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("no chat completion") from error
    reply = Reply(text, sent, received)
    if not reply.sound:
        raise ValueError("no chat completion")
    return reply


class ReplyCache:
    """Replies by question, in one SQLite file."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._lost = False
        """After the first error the file is left alone: every wait for its lock is as long."""
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

    @staticmethod
    def key(question: Mapping[str, Any]) -> str:
        """Return the key of a question: a digest of everything that may change its answer."""
        return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()

    def find(self, key: str) -> Reply | None:
        """Return a cached reply; a row that is no sound reply is ignored."""
        with self._lock, self._careful():
            query = "SELECT text, sent, received FROM replies WHERE key = ?"
            row = None if self._lost else self._database.execute(query, (key,)).fetchone()
            reply = Reply(*row) if row else None
            return reply if reply is not None and reply.sound else None
        return None

    def keep(self, key: str, reply: Reply) -> None:
        """Store a reply; a text with a lone surrogate cannot be stored and is skipped."""
        with self._lock, self._careful(), suppress(UnicodeError):
            if not self._lost:
                with self._database:
                    self._database.execute(
                        "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", (key, *reply)
                    )

    @contextmanager
    def _careful(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error:
            self._lost = True
