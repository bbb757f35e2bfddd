"""One bounded question to an OpenAI-compatible endpoint.

The SDK retries what is worth retrying and honours Retry-After; on top of it an answer has a size
limit and a time limit of its own, and the whole call a deadline, so that neither a megabyte of text
nor a trickle of bytes, in the body or before it, can hold a swarm. Invariant: `ask` returns a reply
or None, and never raises for what a server did.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import weakref
from concurrent.futures import Future
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from waggle.core.errors import ConfigError
from waggle.extras import install
from waggle.laws.replies import Reply

MAX_BODY = 256 * 1024
"""Bytes of a response that are read; a longer one is a babbling endpoint."""
LONGEST_WAIT = 120.0
"""Seconds of Retry-After that the SDK is ready to wait; who asks for more is not asked again."""
_LOG = logging.getLogger(__name__)


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
        except Exception as error:  # addresses are judged by a library underneath
            raise ConfigError(f"base_url {base_url!r} is no address ({error}); mend it") from error
        weakref.finalize(self, self._client.close)
        self._timeout = timeout
        # Every attempt may take its time for the head and again for the body of the answer.
        self._deadline = 2 * timeout * (retries + 1) + LONGEST_WAIT * retries
        self._pause = timeout * (retries + 1)
        self._patience = patience
        self._host = urlsplit(base_url).hostname
        self._told = False
        self._adrift = 0
        self._failures = 0
        self._resume = 0.0
        self._lock = threading.Lock()
        self.formats = True
        """Whether the server takes `response_format`; unlearned at its first refusal."""

    def ask(self, question: dict[str, Any]) -> Reply | None:
        """Put a question; None when the endpoint is dead, refuses, or babbles."""
        if not self._open():
            return None
        try:
            reply = self._in_time(question)
        except self._status as error:
            if error.status_code not in (400, 422) or not question.get("response_format"):
                self._failed(f"{type(error).__name__} {error.status_code}")
                return None
            plain = {name: value for name, value in question.items() if name != "response_format"}
            again = self.ask(plain)
            if again is not None:  # else it was not the format that was refused
                self.formats = False
            return again
        except Exception as error:  # transports differ between SDK releases; what they say is data
            self._failed(type(error).__name__)
            return None
        with self._lock:
            self._failures = 0
        return reply

    def _in_time(self, question: dict[str, Any]) -> Reply:
        """Ask in a thread of its own, which is left alone once it is overdue.

        The time-outs of a transport hold for one read each: a server that sends its head byte by
        byte never meets them, and nothing but the thread that reads can end the reading.
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
            self._drift(1)
            answer.add_done_callback(lambda _: self._drift(-1))
            raise

    def _drift(self, change: int) -> None:
        with self._lock:
            self._adrift += change

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
        return _reply(json.loads(body))

    def _open(self) -> bool:
        """Whether the endpoint is worth asking: a dead one is left alone for a while."""
        with self._lock:
            if self._adrift >= self._patience:
                return False
            return self._failures < self._patience or time.monotonic() >= self._resume

    def _failed(self, reason: str) -> None:
        """Count a failure; the first one is told, since a wrong key or address fails for ever."""
        with self._lock:
            first, self._told = not self._told, True
            self._failures += 1
            self._resume = time.monotonic() + self._pause
        if first:
            _LOG.warning(
                "the endpoint at %s failed (%s); who asks it in vain keeps the private proposal",
                self._host, reason,
            )  # fmt: skip


def _reply(data: Any) -> Reply:
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
