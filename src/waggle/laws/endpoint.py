"""One bounded question to an OpenAI-compatible endpoint.

The SDK retries what is worth retrying and honours Retry-After; on top of it an answer has a size
limit and the whole call a deadline, so that neither a megabyte of text nor a trickle of bytes can
hold a swarm. Invariant: `ask` returns a reply or None, and never raises for what a server did.
"""

from __future__ import annotations

import json
import threading
import time
import weakref
from importlib import import_module
from typing import Any

from waggle.core.errors import ConfigError
from waggle.core.extras import install
from waggle.laws.replies import Reply

MAX_BODY = 256 * 1024
"""Bytes of a response that are read; a longer one is a babbling endpoint."""
MAX_COUNT = 10**9
"""Tokens that one call may claim to have cost."""


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
        self._client: Any = openai.OpenAI(
            base_url=base_url, api_key=api_key, timeout=timeout, max_retries=retries
        )
        weakref.finalize(self, self._client.close)
        self._deadline = timeout * (retries + 1)
        self._patience = patience
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
            reply = self._once(question)
        except self._status as error:
            if error.status_code not in (400, 422) or not question.get("response_format"):
                return self._note(None)
            self.formats = False
            plain = {name: value for name, value in question.items() if name != "response_format"}
            return self.ask(plain)
        except Exception:  # transports differ between SDK releases; what a server provokes is data
            return self._note(None)
        return self._note(reply)

    def _once(self, question: dict[str, Any]) -> Reply:
        stop = time.monotonic() + self._deadline
        body = b""
        with self._client.chat.completions.with_streaming_response.create(**question) as response:
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
            return self._failures < self._patience or time.monotonic() >= self._resume

    def _note(self, reply: Reply | None) -> Reply | None:
        with self._lock:
            if reply is not None:
                self._failures = 0
            else:
                self._failures += 1
                self._resume = time.monotonic() + self._deadline
        return reply


def _reply(data: Any) -> Reply:
    """Read a chat completion; anything else is a ValueError."""
    try:
        text = data["choices"][0]["message"]["content"]
        usage = data.get("usage") or {}
        sent, received = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("no chat completion") from error
    if not isinstance(text, str) or not _is_count(sent) or not _is_count(received):
        raise ValueError("no chat completion")
    return Reply(text, sent, received)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT
