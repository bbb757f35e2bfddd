"""Speculation: an n-gram proposer drafts what an answer will probably say next.

The answers of a swarm resemble one another and quote their prompts. A draft is what followed the
same last tokens in an earlier answer or in the text of the sequence itself. The model verifies a
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
"""Tokens of the longest draft."""
ORDERS = (4, 2)
"""Last tokens that are looked up, the longer context first."""
MIN_DRAFT = 2
"""Tokens of a draft after one that was wrong from the first token on."""
RECENT_TOKENS = 4096
"""Tokens of all recent answers together; the oldest answers go first."""
GAP = -1
"""Separates answers, and fills the place of those to come."""

Text = np.ndarray[Any, np.dtype[np.int32]]
WIDTH = array("i").itemsize


def packed(tokens: Sequence[int]) -> bytes:
    """Return tokens as bytes, in which a search is one call."""
    return array("i", tokens).tobytes()


class RecentAnswers:
    """The answers an engine gave last, each with the prompt's last tokens before it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ...], Text] = OrderedDict()
        self._size = 0
        self._text: Text | None = None
        self._packed = b""

    def add(self, prompt: Sequence[int], answer: Sequence[int]) -> None:
        """Keep an answer; one that is known becomes the last."""
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
        """Return all answers in one array, the last answer at its end.

        It is the same object until another answer is added.
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
    """Drafts from recent answers and from the sequence's own text."""

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
    """Return what last followed some tokens in a text, up to the end of that answer."""
    at = source.rfind(context, 0, len(source) - WIDTH)
    while at > 0 and at % WIDTH:  # found across the bytes of two tokens
        at = source.rfind(context, 0, at + len(context) - 1)
    if at < 0:
        return []
    first = at + len(context)
    tokens = array("i", source[first : first + count * WIDTH]).tolist()
    return tokens[: tokens.index(GAP)] if GAP in tokens else tokens
