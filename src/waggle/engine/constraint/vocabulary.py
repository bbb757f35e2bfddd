"""The vocabulary: a tokenizer seen as bytes, and the tokens that end an answer.

Invariant: `b"".join(spelling(i) for i in encode(text)) == text.encode()` for every text the
vocabulary accepts; a tokenizer for which this fails is rejected with a one-line error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Any

from waggle.core.errors import ConfigError

_CACHE = 32_768
"""The number of encodings that each cache keeps."""
_SPACED = "a . b , c ! d ? do n't it 's we 've they 're I 'm"
"""A text with a space wherever a tokenizer might remove one."""
UNSPELLED = b"\xff"
"""A byte that no text contains: the spelling of a model output without a token."""


def eos_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the EOS tokens: those after which `generate` of this model stops."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    if configured is None:
        configured = tokenizer.eos_token_id
    if configured is None:
        return frozenset()
    return frozenset([configured] if isinstance(configured, int) else configured)


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
    """Return whether decoding removes spaces; some versions have the setting but ignore it."""
    if not getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return False
    ids = tokenizer.encode(_SPACED, add_special_tokens=False)
    return bool(tokenizer.decode(ids, skip_special_tokens=True) != _SPACED)


class Vocabulary:
    """A tokenizer with cached canonical encodings and the byte spelling of every token."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._inner: Any = getattr(tokenizer, "backend_tokenizer", None)
        self._spell = self._style(tokenizer)
        self._plain = self._spell is _spell_byte_level and not _tidies(tokenizer)
        self._special = frozenset(getattr(tokenizer, "all_special_ids", ()))
        self._spellings: dict[int, bytes] = {}
        self._shown: dict[int, bytes] = {}
        """Spellings of tokens in answers; empty for special tokens."""
        self.lookaheads: dict[Any, Any] = {}
        """Lookaheads of the matcher by shape (see `constraint.matcher`)."""
        self.kept = 0
        """The number of continuations in those shapes."""
        self._encode = lru_cache(maxsize=_CACHE)(self._encode_checked)
        self._settle = lru_cache(maxsize=_CACHE)(self._settle_checked)

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
            # A model may have more outputs than its tokenizer has tokens: these spell no text.
            known = self._spellings[token] = UNSPELLED if word is None else self._spell(word)
        return known

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of an answer without EOS and other special tokens."""
        if self._plain:
            try:
                return b"".join(map(self._shown.__getitem__, tokens)).decode(errors="replace")
            except KeyError:
                if self._learn(tokens):
                    return self.text(tokens)
        found: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return found

    def _learn(self, tokens: Sequence[int]) -> bool:
        """Store the spellings of tokens in answers; return whether every token has one."""
        spelled = {t: b"" if t in self._special else self.spelling(t) for t in set(tokens)}
        self._shown.update({t: text for t, text in spelled.items() if text != UNSPELLED})
        return UNSPELLED not in spelled.values()

    def encode(self, text: bytes) -> tuple[int, ...]:
        """Return the tokenizer's own encoding of a text, without special tokens."""
        return self._encode(text)

    def settled(self, text: bytes) -> tuple[int, ...]:
        """Return the tokens of an unfinished text that no continuation can change.

        Tokens can grow only within a word of the pre-tokenizer, so those of the last word are left
        out; if that leaves nothing, the first token is returned.
        """
        return self._settle(text)

    def _settle_checked(self, text: bytes) -> tuple[int, ...]:
        tokens = self.encode(text)
        splitter = getattr(self._inner, "pre_tokenizer", None)
        parts = splitter.pre_tokenize_str(text.decode()) if splitter is not None else []
        closed = parts[-1][1][0] if parts else 0
        ends = accumulate(len(self.spelling(token)) for token in tokens)
        kept = sum(1 for _ in takewhile(closed.__ge__, ends))
        return tokens[: max(1, kept)]

    def _encode_checked(self, text: bytes) -> tuple[int, ...]:
        found = self._tokens(text.decode())
        if b"".join(map(self.spelling, found)) != text:
            raise ConfigError(
                "this tokenizer rewrites text (it does not spell what it encodes), so constrained "
                "decoding cannot use it; decode freely or choose a byte-level tokenizer"
            )
        return found

    def _tokens(self, text: str) -> tuple[int, ...]:
        inner = self._inner
        if inner is None or inner.padding or inner.truncation:
            return tuple(self.tokenizer.encode(text, add_special_tokens=False))
        return tuple(inner.encode(text, add_special_tokens=False).ids)  # the same, and faster
