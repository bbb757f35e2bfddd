"""A tokenizer's own encoding, put together from pieces it has encoded before.

Byte-level BPE cuts a text into pieces by regular expressions and merges within each piece alone, so
the encoding of a text is that of its pieces, and prompts repeat their pieces over and over. The
expressions are read from the tokenizer itself and used on ASCII text, where Python's engine and the
tokenizer's agree; any other text, and any tokenizer that is not of this kind, is encoded by the
tokenizer. Invariant: the tokens are the tokenizer's; samples are held against it, and one that
differs ends the short cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

MAX_PIECES = 50_000
"""Pieces remembered, of a third of a kilobyte each; then all are forgotten."""
SAMPLE = 64
"""The first texts are all held against the tokenizer, then one of so many."""
_GPT2 = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"  # as ByteLevel
)
_CLASSES = {r"\p{N}": "0-9", r"\p{L}": "A-Za-z", r"\p{Lu}": "A-Z", r"\p{Ll}": "a-z"}
_TOKEN = re.compile(r"\\p\{\w+\}|\\.|.", re.DOTALL)

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, re.error)
"""What reading a tokenizer of another kind may raise."""

Piecewise = Callable[[str], Sequence[int]]


class _Pieces(dict[str, Sequence[int]]):
    """Encodings of pieces, made when they are first met."""

    def __init__(self, make: Piecewise) -> None:
        super().__init__({"": ()})
        self._make = make

    def __missing__(self, piece: str) -> Sequence[int]:
        if len(self) > MAX_PIECES:
            self.clear()
            self[""] = ()
        found = self[piece] = self._make(piece)
        return found


class Wordwise:
    """Encodes batches of texts for one tokenizer (of the `tokenizers` library)."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._met = 0
        try:
            self._encode: Piecewise | None = _reader(inner)
        except UNREADABLE:
            self._encode = None

    @property
    def short(self) -> bool:
        """Whether the short cut is taken."""
        return self._encode is not None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts, without special ones added."""
        encode = self._encode
        if encode is None:
            return self._whole(texts)
        found = [list(encode(text)) if text.isascii() else self._whole([text])[0] for text in texts]
        first, self._met = self._met, self._met + len(texts)
        checked = [*range(max(0, SAMPLE - first)), *range(-first % SAMPLE, len(texts), SAMPLE)]
        checked = [index for index in checked if index < len(texts)]
        if not checked:
            return found
        if self._whole([texts[index] for index in checked]) != [found[index] for index in checked]:
            self._encode = None
            return self._whole(texts)
        return found

    def _whole(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]


class Words:
    """Cuts short texts into the words of one tokenizer, and says the tokens of each word."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._met = 0
        self._patterns: list[re.Pattern[str]] | None = None
        try:
            said, merge = _read(inner)
            self._patterns = [_compile(pattern) for pattern in _patterns(said["pre_tokenizer"])]
            self._marks = [added["content"] for added in said["added_tokens"]]
            self._first = {mark[:1] for mark in self._marks}
            self._known = _Pieces(merge)
        except UNREADABLE:
            self._patterns = None

    def of(self, text: str) -> list[Sequence[int]] | None:
        """Return the tokens of each word in turn; nothing where the tokenizer must be asked."""
        if self._patterns is None or not text.isascii() or self._marked(text):
            return None
        words = [text]
        for pattern in self._patterns:
            words = [part for word in words for part in pattern.split(word) if part]
        found = [self._known[word] for word in words]
        self._met += 1
        if (self._met <= SAMPLE or self._met % SAMPLE == 0) and not self._same(text, words, found):
            self._patterns = None
            return None
        return found

    def _marked(self, text: str) -> bool:
        return not self._first.isdisjoint(text) and any(mark in text for mark in self._marks)

    def _same(self, text: str, words: list[str], found: list[Sequence[int]]) -> bool:
        """Whether the tokenizer cuts a text so, and says these tokens."""
        cut = [
            last - first for _, (first, last) in self._inner.pre_tokenizer.pre_tokenize_str(text)
        ]
        tokens = self._inner.encode(text, add_special_tokens=False).ids
        return cut == list(map(len, words)) and tokens == list(chain.from_iterable(found))


def _reader(inner: Any) -> Piecewise:
    """Return a function that encodes one text piece by piece.

    Raises:
        ValueError: where a tokenizer does something that is not reproduced here.
    """
    said, encode = _read(inner)
    for pattern in reversed(_patterns(said["pre_tokenizer"])):
        encode = _split(_compile(pattern), _Pieces(encode))
    return _marked(said["added_tokens"], encode)


def _read(inner: Any) -> tuple[dict[str, Any], Piecewise]:
    """Return what a tokenizer says of itself, and its encoding of one word."""
    said = json.loads(inner.to_str())
    if _rewrites(said["normalizer"]) or inner.padding is not None or inner.truncation is not None:
        raise ValueError("texts are rewritten")
    return said, _merger(said["model"], inner.model)


def _rewrites(normalizer: dict[str, Any] | None) -> bool:
    """Whether texts are changed before they are cut; a sequence of nothing leaves them alone."""
    if normalizer is None:
        return False
    return normalizer["type"] != "Sequence" or any(map(_rewrites, normalizer["normalizers"]))


def _merger(said: dict[str, Any], model: Any) -> Piecewise:
    """Return the encoding of one word; what becomes of unknown letters is the model's business."""
    odd = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
    if said["type"] != "BPE" or any(said.get(name) for name in odd):
        raise ValueError("merges depend on more than the word")
    return lambda word: tuple(token.id for token in model.tokenize(_letters(word)))


def _letters(word: str) -> str:
    """Return an ASCII word in the alphabet of byte-level vocabularies."""
    return "".join(c if "!" <= c <= "~" else chr(256 + _hidden(ord(c))) for c in word)


def _hidden(byte: int) -> int:
    return byte if byte < 33 else 33  # the bytes below `!`, then the one behind `~`


def _patterns(said: dict[str, Any]) -> list[str]:
    """Return the expressions that cut a text, the first to be used first."""
    steps = said["pretokenizers"] if said["type"] == "Sequence" else [said]
    *cuts, last = steps
    if last["type"] != "ByteLevel" or last["add_prefix_space"]:
        raise ValueError("words are not bytes")
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
    """Write an expression of the tokenizer's engine for Python's, on ASCII text."""
    out, inside = [], False
    for part in _TOKEN.findall(pattern):
        if part in _CLASSES:
            out.append(_CLASSES[part] if inside else f"[{_CLASSES[part]}]")
        elif part == r"\z":
            out.append(r"\Z")
        elif part.startswith(r"\p") or part in (r"\Z", r"\h", r"\R", r"\X", r"\G", r"\K"):
            raise ValueError(f"{part} means something else here")
        elif part in ("^", "$") and not inside:
            raise ValueError("lines are no pieces")
        else:
            inside = part == "[" or (inside and part != "]")
            out.append(part)
    return "".join(out)


def _compile(pattern: str) -> re.Pattern[str]:
    if re.compile(pattern).groups:
        raise ValueError("groups would become pieces")
    return re.compile(f"({pattern})", re.ASCII)


def _split(pattern: re.Pattern[str], pieces: _Pieces) -> Piecewise:
    cut, known = pattern.split, pieces.__getitem__
    return lambda text: tuple(chain.from_iterable(map(known, cut(text))))


def _marked(added: list[dict[str, Any]], encode: Piecewise) -> Piecewise:
    """Return an encoding that takes marker tokens out first, the longest that begins earliest."""
    if any(a["normalized"] or a["single_word"] or a["lstrip"] or a["rstrip"] for a in added):
        raise ValueError("markers depend on what stands around them")
    marks = {a["content"]: (a["id"],) for a in added}
    if not marks:
        return encode
    listed = "|".join(re.escape(text) for text in sorted(marks, key=len, reverse=True))
    cut = re.compile(f"({listed})").split

    def read(text: str) -> Sequence[int]:
        parts = cut(text)
        parts[::2] = [encode(part) for part in parts[::2]]
        parts[1::2] = [marks[part] for part in parts[1::2]]
        return list(chain.from_iterable(parts))

    return read
