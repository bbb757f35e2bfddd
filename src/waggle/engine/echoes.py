"""What a text says after which tokens: texts that are read whole, and texts that are searched.

Invariant: drafts alone come from here; they change speed and never output.
"""

from __future__ import annotations

import sys
from array import array
from collections import OrderedDict
from collections.abc import Sequence

Context = tuple[int, ...]
MAX_ECHOES = 64
"""Prefixes whose text drafts may quote."""
WIDTH = array("I").itemsize
"""Bytes of a token in a searched text."""


class Echo:
    """Which token last followed three tokens in texts that are read whole."""

    __slots__ = ("_triples",)

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        self._triples: dict[Context, int] = {}
        self.observe(tokens)

    def observe(self, tokens: Sequence[int]) -> None:
        """Remember every continuation in a run of tokens."""
        contexts = zip(tokens, tokens[1:], tokens[2:], strict=False)
        self._triples.update(zip(contexts, tokens[3:], strict=False))

    def __len__(self) -> int:
        return len(self._triples)

    def triple(self, context: Context) -> int | None:
        """Return what last followed three tokens."""
        return self._triples.get(context)


class Echoes:
    """What prefixes say after which tokens, each read once; those that were asked for last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ...], Echo] = OrderedDict()

    def of(self, prefix: tuple[int, ...]) -> Echo:
        """Return what a prefix says."""
        known = self._kept.get(prefix)
        if known is None:
            known = self._kept[prefix] = Echo(prefix)
            while len(self._kept) > MAX_ECHOES:
                self._kept.popitem(last=False)
        return known


class Trail:
    """A prompt and its answer so far, searched for what last followed some tokens.

    Kept as bytes: an answer asks a few dozen times, so searching is cheaper than an index.
    """

    __slots__ = ("_text",)

    def __init__(self, tokens: Sequence[int]) -> None:
        self._text = _packed(tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Add what was said."""
        self._text += _packed(tokens)

    def after(self, context: Sequence[int]) -> int | None:
        """Return what last followed some tokens."""
        return self._behind(_packed(context))

    def _behind(self, wanted: bytes) -> int | None:
        text = self._text
        at = text.rfind(wanted, 0, len(text) - WIDTH)
        while at > 0 and at % WIDTH:  # found across the bytes of two tokens
            at = text.rfind(wanted, 0, at + len(wanted) - 1)
        if at < 0:
            return None
        end = at + len(wanted)
        return int.from_bytes(text[end : end + WIDTH], sys.byteorder)

    def offered(self, context: Context, tokens: Sequence[int]) -> int | None:
        """Return what last followed three tokens or two, if it is among those offered."""
        wanted = _packed(context)
        found = self._behind(wanted)
        if found is None or found not in tokens:
            found = self._behind(wanted[-2 * WIDTH :])
        return found if found in tokens else None


def _packed(tokens: Sequence[int]) -> bytes:
    return array("I", tokens).tobytes()
