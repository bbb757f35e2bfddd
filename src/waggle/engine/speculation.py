"""Speculation: an n-gram proposer drafts the probable next tokens of an answer.

The answers of a swarm resemble one another and quote their prompts. A draft repeats the tokens that
followed the same last tokens in an earlier answer or in the sequence itself. The model verifies a
draft in the pass that would have given one token, and the engine keeps exactly the tokens that the
model's own choice confirms. Invariant: drafts change speed and never output.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

MAX_DRAFT = 16
"""The longest draft, in tokens."""
ORDERS = (4, 2)
"""The lengths of the contexts that are looked up, in tokens, the longer first."""
MIN_DRAFT = 2
"""The length, in tokens, of a draft after one whose first token was wrong."""
RECENT_TOKENS = 4096
"""The maximum total length of the recent answers, in tokens; the oldest are dropped first."""
GAP = -1
"""The token that separates answers and pads the unused part of the array."""

Text = np.ndarray[Any, np.dtype[np.int32]]
WIDTH = array("i").itemsize


def packed(tokens: Sequence[int]) -> bytes:
    """Return tokens as bytes, which can be searched in one call."""
    return array("i", tokens).tobytes()


class RecentAnswers:
    """The most recent answers of an engine, each preceded by the last tokens of its prompt."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ...], Text] = OrderedDict()
        self._size = 0
        self._text: Text | None = None
        self._packed = b""

    def add(self, prompt: Sequence[int], answer: Sequence[int]) -> None:
        """Store an answer; one that is already stored becomes the most recent."""
        tokens = (*prompt[-ORDERS[0] :], *answer)
        if tokens in self._kept:
            self._kept.move_to_end(tokens)
        elif len(tokens) < RECENT_TOKENS:
            self._kept[tokens] = np.array((*tokens, GAP), dtype=np.int32)
            self._size += len(tokens) + 1
            while self._size > RECENT_TOKENS:
                _, oldest = self._kept.popitem(last=False)
                self._size -= len(oldest)
        self._text = None

    def text(self) -> Text:
        """Return all answers in one array, the most recent at its end.

        The same object is returned until another answer is added.
        """
        if self._text is None:
            self._text = np.full(RECENT_TOKENS, GAP, dtype=np.int32)
            if self._kept:
                self._text[RECENT_TOKENS - self._size :] = np.concatenate(list(self._kept.values()))
            self._packed = self._text[RECENT_TOKENS - self._size :].tobytes()
        return self._text

    def packed(self) -> bytes:
        """Return all answers as bytes."""
        if self._text is None:
            self.text()
        return self._packed


class NGramProposer:
    """A proposer of drafts from recent answers and from the sequence's own text."""

    def __init__(self, answers: RecentAnswers) -> None:
        self._answers = answers

    def propose(self, text: bytes, count: int, allowed: Container[int] | None = None) -> list[int]:
        """Return at most `count` tokens that may follow a text, or none.

        Args:
            text: the tokens so far (see `packed`).
            count: the longest draft.
            allowed: if given, the first token of the draft is one of these.
        """
        sources = self._answers.packed(), text
        for order in ORDERS:
            context = text[-order * WIDTH :]
            for source in sources:
                found = _after(source, context, count)
                if found and (allowed is None or found[0] in allowed):
                    return found
        return []


def _after(source: bytes, context: bytes, count: int) -> list[int]:
    """Return the tokens after the last match of a context, up to the end of that answer."""
    at = source.rfind(context, 0, len(source) - WIDTH)
    while at > 0 and at % WIDTH:  # the match starts inside the bytes of a token
        at = source.rfind(context, 0, at + len(context) - 1)
    if at < 0:
        return []
    first = at + len(context)
    tokens = array("i", source[first : first + count * WIDTH]).tolist()
    return tokens[: tokens.index(GAP)] if GAP in tokens else tokens
