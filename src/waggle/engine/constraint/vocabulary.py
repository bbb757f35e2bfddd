"""What a token spells: a tokenizer seen as bytes.

Invariant: `b"".join(spelling(i) for i in encode(text)) == text.encode()` for every text the
vocabulary accepts; a tokenizer for which this fails is refused with one clear line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain, takewhile
from typing import Any

from waggle.core.errors import ConfigError
from waggle.engine.constraint.wordwise import Words

_CACHE = 32_768
_SPACED = "a . b , c ! d ? do n't it 's we 've they 're I 'm"
"""Has a space everywhere one would be tidied away."""
UNSPELLED = b"\xff"
"""Stands for what no text contains."""


@lru_cache(maxsize=1)
def _byte_alphabet() -> dict[str, int]:
    """Return the printable stand-ins that byte-level vocabularies use for the 256 bytes."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {chr(byte): byte for byte in visible}
    hidden = [byte for byte in range(256) if byte not in set(visible)]
    alphabet.update({chr(256 + offset): byte for offset, byte in enumerate(hidden)})
    return alphabet


def _spell_byte_level(token: str) -> bytes:
    alphabet = _byte_alphabet()
    if all(char in alphabet for char in token):
        return bytes(alphabet[char] for char in token)
    return token.encode()


def _spell_pieces(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()


def _tidies(tokenizer: Any) -> bool:
    """Whether decoding moves spaces about; some versions are told to and do not."""
    if not getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return False
    ids = tokenizer.encode(_SPACED, add_special_tokens=False)
    return bool(tokenizer.decode(ids, skip_special_tokens=True) != _SPACED)


class Vocabulary:
    """A tokenizer with cached canonical encodings and the byte spelling of every token."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._words = Words(getattr(tokenizer, "backend_tokenizer", None))
        self._spell = self._style(tokenizer)
        self._plain = self._spell is _spell_byte_level and not _tidies(tokenizer)
        self._special = frozenset(getattr(tokenizer, "all_special_ids", ()))
        self._spellings: dict[int, bytes] = {}
        self._said: dict[int, bytes] = {}
        """Spellings of tokens as answers have them: special ones say nothing."""
        self.looks: dict[Any, Any] = {}
        """What constraints have found out about shapes of text (see `constraint.lookahead`)."""
        self.kept = 0
        """How much that is."""
        self._encode = lru_cache(maxsize=_CACHE)(self._encode_checked)
        self._settle = lru_cache(maxsize=_CACHE)(self._settled)

    @staticmethod
    def _style(tokenizer: Any) -> Any:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        decoder = repr(getattr(backend, "decoder", ""))
        return _spell_byte_level if "ByteLevel" in decoder else _spell_pieces

    def spelling(self, token: int) -> bytes:
        """Return the bytes of one token."""
        known = self._spellings.get(token)
        if known is None:
            word = self.tokenizer.convert_ids_to_tokens(token)
            # A model may have more outputs than its tokenizer has words: those spell no text.
            known = self._spellings[token] = UNSPELLED if word is None else self._spell(word)
        return known

    def text(self, tokens: Sequence[int]) -> str:
        """Return what an answer says, end markers and other special tokens left out."""
        if self._plain:
            try:
                return b"".join(map(self._said.__getitem__, tokens)).decode(errors="replace")
            except KeyError:
                if self._meet(tokens):
                    return self.text(tokens)
        found: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return found

    def _meet(self, tokens: Sequence[int]) -> bool:
        """Note what tokens say in answers; whether all of them spell something or are special."""
        spelled = {t: b"" if t in self._special else self.spelling(t) for t in set(tokens)}
        self._said.update({t: said for t, said in spelled.items() if said != UNSPELLED})
        return UNSPELLED not in spelled.values()

    def encode(self, text: bytes) -> tuple[int, ...]:
        """Return the tokenizer's own encoding of some bytes, without special tokens."""
        return self._encode(text)

    def settled(self, text: bytes) -> tuple[int, ...]:
        """Return the tokens of an unfinished text that no continuation can change.

        Tokens grow within a word of the pre-tokenizer, so all of the last word stays open; where
        that leaves nothing, the first token has to do.
        """
        return self._settle(text)

    def _settled(self, text: bytes) -> tuple[int, ...]:
        words = self._words.of(text.decode())
        if words:
            self._check(text, chain.from_iterable(words))
            return tuple(chain.from_iterable(words[:-1])) or tuple(words[-1][:1])
        tokens = self.encode(text)
        splitter = getattr(
            getattr(self.tokenizer, "backend_tokenizer", None), "pre_tokenizer", None
        )
        parts = splitter.pre_tokenize_str(text.decode()) if splitter is not None else []
        closed = parts[-1][1][0] if parts else 0
        ends = accumulate(len(self.spelling(token)) for token in tokens)
        kept = sum(1 for _ in takewhile(closed.__ge__, ends))
        return tokens[: max(1, kept)]

    def _encode_checked(self, text: bytes) -> tuple[int, ...]:
        words = self._words.of(text.decode())
        found = self._tokens(text.decode()) if words is None else tuple(chain.from_iterable(words))
        self._check(text, found)
        return found

    def _check(self, text: bytes, tokens: Iterable[int]) -> None:
        if b"".join(map(self.spelling, tokens)) != text:
            raise ConfigError(
                "this tokenizer rewrites text (it does not spell what it encodes), so constrained "
                "decoding cannot use it; decode freely or choose a byte-level tokenizer"
            )

    def _tokens(self, text: str) -> tuple[int, ...]:
        inner = getattr(self.tokenizer, "backend_tokenizer", None)
        if inner is None or inner.padding or inner.truncation:
            return tuple(self.tokenizer.encode(text, add_special_tokens=False))
        return tuple(inner.encode(text, add_special_tokens=False).ids)  # the same, and sooner
