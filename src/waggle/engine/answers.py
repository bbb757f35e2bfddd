"""Answers that an engine gave lately, as one text in which the next ones may be found.

Invariant: drafts alone come from here; they change speed and never output.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

ROOM = 4096
"""Tokens of all answers together; the oldest go first."""
NOTHING = -1
"""Stands between answers, and where there are none."""

Text = np.ndarray[Any, np.dtype[np.int32]]


class Answers:
    """Answers that differ, the one that was given last at the end."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ...], Text] = OrderedDict()
        self._size = 0
        self._text: Text | None = None

    def add(self, tokens: tuple[int, ...]) -> None:
        """Keep an answer; one that is here was given once more."""
        if tokens in self._kept:
            self._kept.move_to_end(tokens)
        elif len(tokens) < ROOM:
            self._kept[tokens] = np.array((*tokens, NOTHING), dtype=np.int32)
            self._size += len(tokens) + 1
            while self._size > ROOM:
                _, oldest = self._kept.popitem(last=False)
                self._size -= len(oldest)
        self._text = None

    def text(self) -> Text:
        """Return all of them, one behind the other; the very same text while none is given."""
        if self._text is None:
            self._text = np.full(ROOM, NOTHING, dtype=np.int32)
            if self._kept:
                self._text[ROOM - self._size :] = np.concatenate(list(self._kept.values()))
        return self._text
