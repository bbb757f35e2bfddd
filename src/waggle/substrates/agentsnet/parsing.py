"""Readers of a named AgentsNet agent's replies (spec section 2).

Both are bug-for-bug the official behaviour: an object counts only if it ends at the reply's last
brace, and an answer is the first legal one that is a prefix of what follows a marker. Replies are
untrusted: anything unreadable, or longer than `MAX_REPLY`, is None and never an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from waggle.substrates.agentsnet.names import MEMBERS

MAX_REPLY = 32_768
"""Longest reply, in characters, that is looked at."""

MARKER = "### Final Answer ###"
"""What must precede a final answer, case included."""

_DECODER = json.JSONDecoder()


def parse_messages(text: str) -> dict[str, str] | None:
    """Return {neighbour name: message}, {} for silence, None where the reply is unreadable."""
    if len(text) > MAX_REPLY:
        return None
    text = text.replace("\\n", "\n")
    last = text.rfind("}")
    start = text.find("{")
    while 0 <= start < last:
        messages = _object_at(text, start, last + 1)
        if messages is not None:
            return messages
        start = text.find("{", start + 1)
    return None


def parse_answer(text: str, legal: Sequence[str]) -> str | None:
    """Return the final answer of a reply, tested as a prefix in list order, or None."""
    if not legal or len(text) > MAX_REPLY:
        return None
    options = "|".join(re.escape(answer) for answer in legal)
    found = re.search(rf"{re.escape(MARKER)}\s*({options})", text)
    return found.group(1) if found else None


def _object_at(text: str, start: int, end: int) -> dict[str, str] | None:
    """Return the object spanning text[start:end] if all keys are pool names and values strings."""
    try:
        value, stop = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    if stop != end or not isinstance(value, dict):
        return None
    if all(key in MEMBERS and isinstance(item, str) for key, item in value.items()):
        return value
    return None
