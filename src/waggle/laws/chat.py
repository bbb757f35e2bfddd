"""A law for any chat endpoint: OpenAI, Anthropic, vLLM, Ollama, llama.cpp server, `waggle serve`.

The nodes of a round send their requests concurrently, up to a limit. If the first request ever
fails, an error is raised. After a later failure, the node keeps its private proposal instead of a
social decision, the failure is counted, and the episode continues; an episode with too many
failures counts as failed. Invariant: the answers do not depend on the order of a batch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from waggle.core import prompt
from waggle.core.errors import ConfigError
from waggle.core.protocols import Decode, Request, Usage
from waggle.core.schema import private_decision
from waggle.laws.endpoint import Endpoint, Failure, Limits, Question
from waggle.laws.replies import Reply, ReplyCache
from waggle.laws.wire import ANTHROPIC, OPENAI, Wire

MAX_CONCURRENCY = 256
MAX_TOKENS = 1_000_000
MAX_COST = 10**12
"""Largest cost of one call in millionths; the server reports the token counts behind it."""


class ChatLaw:
    """A law that decides by querying a chat endpoint.

    Args:
        base_url: URL of the endpoint, e.g. http://localhost:11434/v1.
        model: model name at the endpoint.
        api: protocol: `openai` (chat completions) or `anthropic` (messages); `auto` selects
            Anthropic's for addresses of anthropic.com.
        api_key_env: environment variable with the API key, if the endpoint needs one. Default:
            OPENAI_API_KEY or ANTHROPIC_API_KEY.
        concurrency: maximum concurrent requests.
        rate: maximum requests per minute; 0 for no limit.
        timeout: time limit per question in seconds, including all attempts and waits.
        retries: retries after lost connections, 408, 409, 425, 429 and 5xx, with increasing waits;
            Retry-After is honoured.
        patience: consecutive failures after which requests pause for one `timeout`.
        temperature: sampling temperature; left out if the server refuses it.
        max_tokens: maximum answer length in tokens; sent as max_completion_tokens if the server
            requires that.
        response_format: `json` requests a JSON object from an OpenAI-compatible server, unless it
            refuses; `off` does not.
        seed: send the node's own entropy as `seed`, for servers that use it.
        extra: further request parameters as a JSON object, e.g. {"top_p": 0.9}; null leaves a
            parameter out.
        cache: SQLite file of replies, so that equal requests are sent once; empty for none.
        price_input: price per million input tokens, in any currency, to compute the cost.
        price_output: price per million output tokens.
        max_failed: share of failed calls above which an episode counts as failed.
    """

    batched = True
    """Many episodes are played side by side, under one limit of concurrency and rate."""

    def __init__(
        self,
        base_url: str = "http://localhost:8000/v1",
        model: str = "default",
        api: Literal["auto", "openai", "anthropic"] = "auto",
        api_key_env: str = "",
        concurrency: int = 16,
        rate: float = 0.0,
        timeout: float = 120.0,
        retries: int = 3,
        patience: int = 16,
        temperature: float = 0.0,
        max_tokens: int = 512,
        response_format: Literal["json", "off"] = "json",
        seed: bool = False,
        extra: str | Mapping[str, Any] = "",
        cache: str = "",
        price_input: float = 0.0,
        price_output: float = 0.0,
        max_failed: float = 0.2,
    ) -> None:
        wire = _wire(base_url, api)
        if not 1 <= concurrency <= MAX_CONCURRENCY or not 0 <= retries <= 10 or patience < 1:
            raise ConfigError("concurrency must be 1 to 256, retries 0 to 10, patience at least 1")
        if not (math.isfinite(timeout) and 0 < timeout <= 3600) or not 0 <= temperature <= 2:
            raise ConfigError("timeout must be 0 to 3600 seconds and temperature 0 to 2")
        if not 1 <= max_tokens <= MAX_TOKENS:
            raise ConfigError(f"max_tokens must be 1 to {MAX_TOKENS}")
        if not 0 <= max_failed <= 1 or not all(
            math.isfinite(value) and value >= 0 for value in (rate, price_input, price_output)
        ):
            raise ConfigError("max_failed must be 0 to 1; rate and prices must not be negative")
        if response_format not in ("json", "off"):
            raise ConfigError(f"response_format {response_format!r} is unknown; use json or off")
        if seed and wire is ANTHROPIC:
            raise ConfigError("Anthropic's messages take no seed; leave out --law.seed")
        parameters: dict[str, Any] = {
            "model": model,
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        if response_format == "json" and wire is OPENAI:
            parameters["response_format"] = {"type": "json_object"}
        more = _extra(extra)
        self.name = "chat"
        self.max_failed = max_failed
        self._seed = seed
        self._prices = price_input, price_output
        self._endpoint = Endpoint(
            base_url,
            wire,
            _sendable({**parameters, **more}),
            key_env=api_key_env,
            limits=Limits(timeout, retries, concurrency, rate, patience),
            fixed=tuple(more),
            cache=ReplyCache(cache) if cache else None,
        )

    def load(self) -> None:
        """Read the key again and reset the failure state of the endpoint."""
        self._endpoint.renew()

    @property
    def trouble(self) -> str:
        """The reason of the latest failed call; empty if none has failed."""
        return self._endpoint.trouble

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        answers = self.ask([self._question(request) for request in requests])
        return [
            self._decode(request, answer) for request, answer in zip(requests, answers, strict=True)
        ]

    def ask(self, questions: Sequence[Question]) -> list[Reply | Failure]:
        """Send several chat requests concurrently; return replies or failures, in order."""
        return self._endpoint.ask(questions)

    def usage(self, answer: Reply | Failure) -> Usage:
        """Return the usage of an answer: calls, tokens and cost."""
        if isinstance(answer, Failure):
            return Usage(calls=1, failures=1)
        sent, received = answer.input_tokens, answer.output_tokens
        # A price per million tokens is a price in millionths per token.
        cost = round(self._prices[0] * sent + self._prices[1] * received) if answer.calls else 0
        return Usage(answer.calls, sent, received, cost=min(cost, MAX_COST))

    def _question(self, request: Request) -> Question:
        turns = prompt.messages(request.view, request.feedback, request.previous)
        own = {"seed": request.entropy % 2**31} if self._seed else {}
        return Question(turns, own)

    def _decode(self, request: Request, answer: Reply | Failure) -> Decode:
        if isinstance(answer, Failure):
            return Decode(private_decision(request.view), Usage(calls=1, failures=1))
        return Decode(answer.text, self.usage(answer))


def _wire(base_url: str, api: str) -> Wire:
    """Return the protocol of an address; an invalid address is refused.

    So is one with a name and password, since they would be written into rows and records.
    """
    if not base_url.startswith(("http://", "https://")):
        raise ConfigError(f"base_url {base_url!r} is no address; begin it with http://")
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        host.encode("idna")
        sound = bool(host) and (parts.port is None or parts.port > 0)
    except (ValueError, UnicodeError):
        sound = False
    if not sound or not base_url.isprintable() or " " in base_url:
        raise ConfigError(f"base_url {base_url!r} is no address; write http://HOST:PORT/v1")
    if "@" in parts.netloc:
        raise ConfigError("base_url must hold no name and no key; use --law.api-key-env")
    if api not in ("auto", "openai", "anthropic"):
        raise ConfigError(f"api {api!r} is unknown; use auto, openai or anthropic")
    ours = host == "anthropic.com" or host.endswith(".anthropic.com")
    return ANTHROPIC if api == "anthropic" or (api == "auto" and ours) else OPENAI


def _extra(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return further parameters; those that the law itself must set are refused."""
    try:
        found = json.loads(given or "{}") if isinstance(given, str) else dict(given)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"extra is no JSON ({str(error)[:80]}); write an object") from None
    if not isinstance(found, dict) or not {"messages", "system", "stream", "n"}.isdisjoint(found):
        raise ConfigError("extra must be a JSON object without messages, system, stream and n")
    return found


def _sendable(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of all requests; values that JSON cannot represent are refused."""
    try:
        json.dumps(parameters, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"model and extra cannot be sent ({str(error)[:80]}); use plain text and finite numbers"
        ) from None
    return parameters
