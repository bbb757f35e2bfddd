"""Any OpenAI-compatible endpoint as a law: vLLM, llama.cpp server, Ollama, OpenAI, `waggle serve`.

All nodes of a round ask at once, up to a bound on concurrency. A dead or misbehaving endpoint
costs a node its social decision only: the node keeps its private proposal, the failure is counted,
and the episode goes on. Invariant: the answers do not depend on the order of a batch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal
from urllib.parse import urlsplit

from waggle.core import prompt
from waggle.core.decode import MAX_TEXT
from waggle.core.errors import ConfigError
from waggle.core.protocols import Decode, Request, Usage
from waggle.core.schema import private_decision
from waggle.laws.endpoint import Endpoint, ReplyCache

MAX_CONCURRENCY = 256
MAX_TOKENS = 1_000_000


class ChatLaw:
    """Decides by asking a chat endpoint.

    Args:
        base_url: where the endpoint is, e.g. http://localhost:11434/v1.
        model: the model name it knows.
        api_key_env: environment variable that holds the key, if the endpoint wants one.
        concurrency: questions in flight at once.
        timeout: seconds one attempt may take.
        retries: further attempts after time-outs, 408, 409, 429 and 5xx; Retry-After is honoured.
        temperature: sampling temperature.
        max_tokens: longest answer.
        response_format: `json` asks the server for a JSON object, unless it refuses; or `off`.
        cache: SQLite file of replies, so that a question is asked once; empty for none.
        patience: failures in a row after which the endpoint is left alone for a while.
        seed: send the node's own random draw as `seed`, for servers that use it.
    """

    def __init__(
        self,
        base_url: str = "http://localhost:8000/v1",
        model: str = "default",
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 16,
        timeout: float = 60.0,
        retries: int = 2,
        temperature: float = 0.0,
        max_tokens: int = 512,
        response_format: Literal["json", "off"] = "json",
        cache: str = "",
        patience: int = 16,
        seed: bool = False,
    ) -> None:
        _require_address(base_url)
        if not 1 <= concurrency <= MAX_CONCURRENCY or not 0 <= retries <= 10 or patience < 1:
            raise ConfigError("concurrency must be 1 to 256, retries 0 to 10, patience at least 1")
        if not (math.isfinite(timeout) and 0 < timeout <= 3600) or not 0 <= temperature <= 2:
            raise ConfigError("timeout must be 0 to 3600 seconds and temperature 0 to 2")
        if not 1 <= max_tokens <= MAX_TOKENS:
            raise ConfigError(f"max_tokens must be 1 to {MAX_TOKENS}")
        if response_format not in ("json", "off"):
            raise ConfigError(f"response_format {response_format!r} is unknown; use json or off")
        self.name = "chat"
        self._question = {
            "model": model,
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        self._seed = seed
        self._format = response_format
        self._base_url = base_url
        self._concurrency = concurrency
        self._cache = ReplyCache(cache) if cache else None
        self._endpoint = Endpoint(base_url, _key(api_key_env), timeout, retries, patience)

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Ask for every request of one round."""
        if not requests:
            return []
        with ThreadPoolExecutor(min(self._concurrency, len(requests))) as pool:
            return list(pool.map(self._decide, requests))

    def _decide(self, request: Request) -> Decode:
        question = self._ask(request)
        # The address of the server and every setting are part of the key.
        key = ReplyCache.key({**question, "base_url": self._base_url}) if self._cache else ""
        cached = self._cache.find(key) if self._cache else None
        if cached is not None:
            return Decode(cached.text, Usage(0, cached.input_tokens, cached.output_tokens))
        reply = self._endpoint.ask(question)
        if reply is None or len(reply.text) > MAX_TEXT:
            return Decode(private_decision(request.view), Usage(calls=1, failures=1))
        if self._cache:
            self._cache.keep(key, reply)
        return Decode(reply.text, Usage(1, reply.input_tokens, reply.output_tokens))

    def _ask(self, request: Request) -> dict[str, Any]:
        question: dict[str, Any] = dict(self._question)
        question["messages"] = prompt.messages(request.view, request.feedback, request.previous)
        if self._format == "json" and self._endpoint.formats:
            question["response_format"] = {"type": "json_object"}
        if self._seed:
            question["seed"] = request.entropy % 2**31
        return question


def _require_address(base_url: str) -> None:
    """Refuse an address that no server can have: every node would fail on it in silence."""
    if not base_url.startswith(("http://", "https://")):
        raise ConfigError(f"base_url {base_url!r} is no address; begin it with http://")
    try:
        parts = urlsplit(base_url)
        sound = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or not base_url.isprintable() or " " in base_url:
        raise ConfigError(f"base_url {base_url!r} is no address; write http://HOST:PORT/v1")


def _key(variable: str) -> str:
    """Return the key in an environment variable; it must fit into a header."""
    found = os.environ.get(variable, "").strip() or "none"
    if not (found.isascii() and found.isprintable()):
        raise ConfigError(f"the key in {variable} holds characters that no key has; set it again")
    return found
