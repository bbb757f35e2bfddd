"""Tokenization of prompts piece by piece, with a cache of the tokens of each piece.

Byte-level BPE splits a text into pieces by regular expressions and merges only within a piece, so
the encoding of a text is the concatenation of its pieces' encodings, and prompts repeat the same
pieces many times. The expressions are read from the tokenizer and applied to ASCII text, where
Python's engine and the tokenizer's agree; any other text and any other kind of tokenizer is encoded
by the tokenizer itself.

Rows of a view repeat across rounds and nodes, so a text is first split into rows, and an uncached
row into fields. These splits are where a brace or a comma follows a digit, since every usual
expression splits there as well. Only an uncached field is split by the expressions, the slowest
step.

Invariant: the tokens equal the tokenizer's. Samples are compared with it, and a mismatch turns
piecewise encoding off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

MAX_PIECES = 50_000
"""Pieces in one cache, of half a kilobyte each; a full cache is cleared."""
MARKS = (",", "}")
"""Characters that end a number in a view: first the one that ends fields, then rows."""
SAMPLE = 64
"""The first 64 texts are all compared with the tokenizer, then one in 64."""
_GPT2 = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"  # as ByteLevel
)
_CLASSES = {r"\p{N}": "0-9", r"\p{L}": "A-Za-z", r"\p{Lu}": "A-Z", r"\p{Ll}": "a-z"}
_TOKEN = re.compile(r"\\p\{\w+\}|\\.|.", re.DOTALL)

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, re.error)
"""Errors raised when reading a tokenizer of another kind."""

Encode = Callable[[str], Sequence[int]]


class _Pieces(dict[str, Sequence[int]]):
    """A cache from pieces to their encodings, filled on first use."""

    def __init__(self, make: Encode) -> None:
        super().__init__({"": ()})
        self._make = make

    def __missing__(self, piece: str) -> Sequence[int]:
        if len(self) > MAX_PIECES:
            self.clear()
            self[""] = ()
        found = self[piece] = self._make(piece)
        return found


class Piecewise:
    """A batch encoder for one tokenizer of the `tokenizers` library."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._encoded = 0
        try:
            self._encode: Encode | None = _encoder(inner)
        except UNREADABLE:
            self._encode = None

    @property
    def active(self) -> bool:
        """Whether texts are encoded piecewise."""
        return self._encode is not None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts, without special tokens added."""
        encode = self._encode
        if encode is None:
            return self._whole(texts)
        found = [list(encode(text)) if text.isascii() else self._whole([text])[0] for text in texts]
        first, self._encoded = self._encoded, self._encoded + len(texts)
        sample = [*range(max(0, SAMPLE - first)), *range(-first % SAMPLE, len(texts), SAMPLE)]
        sample = [index for index in sample if index < len(texts)]
        if not sample:
            return found
        if self._whole([texts[index] for index in sample]) != [found[index] for index in sample]:
            self._encode = None
            return self._whole(texts)
        return found

    def _whole(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]


def _encoder(inner: Any) -> Encode:
    """Return a function that encodes one text piece by piece.

    Raises:
        ValueError: if the tokenizer does something that is not reproduced here.
    """
    settings = json.loads(inner.to_str())
    rewrites = _rewrites(settings["normalizer"])
    if rewrites or inner.padding is not None or inner.truncation is not None:
        raise ValueError("the tokenizer rewrites texts")
    encode = _merger(settings["model"], inner.model)
    patterns = [_compile(pattern) for pattern in _patterns(settings["pre_tokenizer"])]
    for pattern in reversed(patterns):
        encode = _split(pattern, _Pieces(encode))
    added = settings["added_tokens"]
    encode = _with_added(added, encode)
    for mark in MARKS:
        if _ends_numbers(mark, patterns, [token["content"] for token in added]):
            encode = _cut(mark, _Pieces(encode))
    return encode


def _rewrites(normalizer: dict[str, Any] | None) -> bool:
    """Return whether a normalizer changes texts; an empty sequence does not."""
    if normalizer is None:
        return False
    return normalizer["type"] != "Sequence" or any(map(_rewrites, normalizer["normalizers"]))


def _merger(settings: dict[str, Any], model: Any) -> Encode:
    """Return a function that encodes one piece with the BPE model itself."""
    odd = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
    if settings["type"] != "BPE" or any(settings.get(name) for name in odd):
        raise ValueError("merges depend on more than the piece")
    return lambda piece: tuple(token.id for token in model.tokenize(_byte_letters(piece)))


def _byte_letters(piece: str) -> str:
    """Return an ASCII text in the alphabet of byte-level vocabularies."""
    return "".join(c if "!" <= c <= "~" else chr(256 + min(ord(c), 33)) for c in piece)


def _patterns(settings: dict[str, Any]) -> list[str]:
    """Return the expressions that split a text, in order of use."""
    steps = settings["pretokenizers"] if settings["type"] == "Sequence" else [settings]
    *cuts, last = steps
    if last["type"] != "ByteLevel" or last["add_prefix_space"]:
        raise ValueError("pieces are not bytes")
    found = [_pattern(cut) for cut in cuts]
    return [*found, _GPT2] if last["use_regex"] else found


def _pattern(cut: dict[str, Any]) -> str:
    if cut["type"] == "Digits" and cut["individual_digits"]:
        return "[0-9]"
    if cut["type"] != "Split" or cut["behavior"] != "Isolated" or cut["invert"]:
        raise ValueError("an unknown way to cut")
    pattern = cut["pattern"]
    return re.escape(pattern["String"]) if "String" in pattern else _ascii(pattern["Regex"])


def _ascii(pattern: str) -> str:
    """Translate a regular expression from the tokenizer's engine to Python's, for ASCII text."""
    out, inside = [], False
    for part in _TOKEN.findall(pattern):
        if part in _CLASSES:
            out.append(_CLASSES[part] if inside else f"[{_CLASSES[part]}]")
        elif part == r"\z":
            out.append(r"\Z")
        elif part.startswith(r"\p") or part in (r"\Z", r"\h", r"\R", r"\X", r"\G", r"\K"):
            raise ValueError(f"{part} has another meaning in Python")
        elif part in ("^", "$") and not inside:
            raise ValueError("a piece would depend on its line")
        else:
            inside = part == "[" or (inside and part != "]")
            out.append(part)
    return "".join(out)


def _compile(pattern: str) -> re.Pattern[str]:
    if re.compile(pattern).groups:
        raise ValueError("groups would become pieces")
    return re.compile(f"({pattern})", re.ASCII)


def _split(pattern: re.Pattern[str], pieces: _Pieces) -> Encode:
    cut, known = pattern.split, pieces.__getitem__
    return lambda text: tuple(chain.from_iterable(map(known, cut(text))))


def _ends_numbers(mark: str, patterns: Sequence[re.Pattern[str]], added: Sequence[str]) -> bool:
    """Return whether patterns split between a digit and a mark that no added token spans."""
    across = re.compile("[0-9]" + re.escape(mark))
    cuts = any("7" in pattern.split("7" + mark) for pattern in patterns)
    return cuts and not any(across.search(text) for text in added)


def _cut(mark: str, pieces: _Pieces) -> Encode:
    """Return a function that encodes a text split before each mark that follows a digit."""
    known = pieces.__getitem__

    def encode(text: str) -> Sequence[int]:
        first, *others = text.split(mark)
        found: list[str] = []
        piece = first
        for other in others:
            if piece[-1:].isdigit():
                found.append(piece)
                piece = mark + other
            else:
                piece += mark + other
        found.append(piece)
        return tuple(chain.from_iterable(map(known, found)))

    return encode


def _with_added(added: list[dict[str, Any]], encode: Encode) -> Encode:
    """Return a function that matches added tokens first: the earliest, then the longest."""
    if any(a["normalized"] or a["single_word"] or a["lstrip"] or a["rstrip"] for a in added):
        raise ValueError("added tokens depend on the text around them")
    known = {a["content"]: (a["id"],) for a in added}
    if not known:
        return encode
    listed = "|".join(re.escape(text) for text in sorted(known, key=len, reverse=True))
    cut = re.compile(f"({listed})").split

    def read(text: str) -> Sequence[int]:
        parts = cut(text)
        parts[::2] = [encode(part) for part in parts[::2]]
        parts[1::2] = [known[part] for part in parts[1::2]]
        return list(chain.from_iterable(parts))

    return read
