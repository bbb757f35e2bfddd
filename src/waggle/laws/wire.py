"""The two chat protocols: OpenAI's chat completions and Anthropic's messages.

A protocol defines the path, the headers that carry the key, the format of turns and replies, and
the parameters that may be given up if a server refuses them. Invariant: server output is only data;
it becomes a valid reply, or a `Malformed` with one line that states what is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from waggle.laws.replies import Reply

Turns: TypeAlias = Sequence[Mapping[str, str]]
"""A chat: turns with a role and a content."""
MAX_SENTENCE = 300
"""Characters kept of a server's error message."""


class Malformed(ValueError):
    """Raised when an answer is not a valid reply of the protocol."""


class Wire(NamedTuple):
    """One chat protocol."""

    path: str
    """Appended to the base address."""
    key_env: str
    """Environment variable with the key, unless another is named."""
    headers: Callable[[str], dict[str, str]]
    """Returns the headers that carry a key; an empty key is not sent."""
    turns: Callable[[Turns], dict[str, Any]]
    """Returns the part of a body that holds the chat."""
    read: Callable[[Any], Reply]
    """Returns the reply in a parsed JSON body."""
    optional: Mapping[str, str]
    """Parameters that servers may refuse, each with a replacement name; empty for none."""


def _openai_headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _openai_turns(turns: Turns) -> dict[str, Any]:
    return {"messages": [dict(turn) for turn in turns]}


def _openai_reply(data: Any) -> Reply:
    try:
        choice = data["choices"][0]
        text, usage = choice["message"]["content"], data.get("usage") or {}
        counts = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
        ended = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Malformed("the answer is no chat completion") from None
    return _sound(text, *counts, ended)


def _anthropic_headers(key: str) -> dict[str, str]:
    return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}


def _anthropic_turns(turns: Turns) -> dict[str, Any]:
    system = "\n".join(turn["content"] for turn in turns if turn["role"] == "system")
    rest = [dict(turn) for turn in turns if turn["role"] != "system"]
    return {"messages": rest, **({"system": system} if system else {})}


def _anthropic_reply(data: Any) -> Reply:
    try:
        texts = [block["text"] for block in data["content"] if block["type"] == "text"]
        text = "".join(texts) if texts else None
        usage = data.get("usage") or {}
        kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        sent = sum(usage.get(kind) or 0 for kind in kinds)
        counts = sent, usage.get("output_tokens") or 0
        ended = data.get("stop_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Malformed("the answer is no message") from None
    return _sound(text, *counts, ended)


def _sound(text: Any, sent: Any, received: Any, ended: Any) -> Reply:
    if text is None:
        more = "; raise --law.max-tokens" if ended in ("length", "max_tokens") else ""
        raise Malformed(f"the answer has no text (it ended by {str(ended)[:40]!r}{more})")
    reply = Reply(text, sent, received)
    if not reply.sound:
        raise Malformed("the answer has a text or token counts of the wrong kind")
    return reply


OPENAI = Wire(
    "/chat/completions", "OPENAI_API_KEY", _openai_headers, _openai_turns, _openai_reply,
    {"response_format": "", "max_tokens": "max_completion_tokens", "temperature": "", "seed": ""},
)  # fmt: skip
ANTHROPIC = Wire(
    "/messages", "ANTHROPIC_API_KEY", _anthropic_headers, _anthropic_turns, _anthropic_reply,
    {"temperature": ""},
)  # fmt: skip


def adapted(body: Mapping[str, Any], wire: Wire, given_up: Collection[str]) -> dict[str, Any]:
    """Return a body with the given-up parameters removed, or renamed to their replacements.

    A replacement does not overwrite a parameter that the body already has under that name.
    """
    names = {name: wire.optional[name] for name in given_up}
    kept = {name: value for name, value in body.items() if name not in names}
    return {new: body[old] for old, new in names.items() if new and old in body} | kept


def blamed(said: str, body: Mapping[str, Any], wire: Wire) -> str:
    """Return the parameter that a refusal is about, if it is optional in the protocol.

    A server that names none of them most often means `response_format`, the newest.
    """
    here = [name for name in wire.optional if name in body]
    named = [name for name in here if re.search(rf"\b{name}\b", said)]
    return next(iter(named or [name for name in here if name == "response_format"]), "")


def sentence(data: bytes) -> str:
    """Return the error message in a server's response, whichever field holds it."""
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        found = data.decode("utf-8", "replace")
    for name in ("error", "message", "detail", "msg"):
        if isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found if isinstance(found, str) else json.dumps(found)


def one_line(text: str) -> str:
    """Return a text on one line, without terminal control characters, cut to `MAX_SENTENCE`."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:MAX_SENTENCE]
