"""(view, decision) pairs as token sequences, many at once.

A sequence is the whole chat of one call and the record that answers it. What all prompts of a
contract begin with is encoded once where the contract comes often. Invariant: the tokens are those
of the tokenizer on the whole text.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waggle.core.protocols import Request
from waggle.core.schema import Decision, View
from waggle.laws.dialogue import Dialogue
from waggle.scd.data.tokens import Coder

OFTEN = 8
"""Views of one contract in a batch from which on its shared tokens are worth finding."""


class Tokens(NamedTuple):
    """Sequences of one split, end to end."""

    ids: NDArray[np.uint16]
    lengths: NDArray[np.int32]
    prompts: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.lengths)

    def starts(self) -> NDArray[np.int64]:
        """Return where each sequence starts."""
        return np.concatenate(([0], np.cumsum(self.lengths, dtype=np.int64)[:-1]))


class Piece(NamedTuple):
    """What one job gives: sequences and the hashes of their texts."""

    tokens: Tokens
    hashes: NDArray[np.uint64]


class Speller:
    """Writes (view, decision) pairs as token sequences."""

    def __init__(self, coder: Coder) -> None:
        self._coder = coder
        self._dialogue = Dialogue(coder.tokenizer)
        backend: Any = coder.tokenizer.backend_tokenizer
        self._encode = getattr(backend, "encode_batch_fast", backend.encode_batch)

    def spell(self, pairs: Sequence[tuple[View, Decision]], longest: int) -> Piece:
        """Tokenise pairs, each text once; sequences beyond `longest` are left out."""
        prompts = self._prompts([view for view, _ in pairs])
        found: dict[int, tuple[list[int], str]] = {}
        for ids, (_, decision) in zip(prompts, pairs, strict=True):
            digest = hashlib.blake2b(np.array(ids, np.uint32).tobytes(), digest_size=8).digest()
            found.setdefault(
                int.from_bytes(digest, "big"), (ids, self._coder.answer_text(decision))
            )
        answers = self._ids([text for _, text in found.values()])
        rows = [
            (key, prompt, answer)
            for (key, (prompt, _)), answer in zip(found.items(), answers, strict=True)
            if len(prompt) + len(answer) <= longest
        ]
        flat = [token for _, prompt, answer in rows for token in (*prompt, *answer)]
        return Piece(
            Tokens(
                np.array(flat, np.uint16),
                np.array([len(p) + len(a) for _, p, a in rows], np.int32),
                np.array([len(p) for _, p, _ in rows], np.int32),
            ),
            np.array([key for key, _, _ in rows], np.uint64),
        )

    def _prompts(self, views: Sequence[View]) -> list[list[int]]:
        """Return prompts in tokens, the shared part of frequent contracts encoded once."""
        often = {c for c, n in Counter(view.contract for view in views).items() if n >= OFTEN}
        cut = [i for i, view in enumerate(views) if view.contract in often]
        whole = [i for i, view in enumerate(views) if view.contract not in often]
        found: list[list[int]] = [[] for _ in views]
        # Contracts one after another: the dialogue remembers a bounded number of them.
        cut.sort(key=lambda i: hash(views[i].contract))
        for i, (shared, own) in zip(
            cut, self._dialogue.tokens([Request(views[i]) for i in cut]), strict=True
        ):
            found[i] = [*shared, *own]
        texts = [self._coder.prompt_text(views[i]) for i in whole]
        for i, ids in zip(whole, self._ids(texts), strict=True):
            found[i] = ids
        return found

    def _ids(self, texts: list[str]) -> list[list[int]]:
        return [found.ids for found in self._encode(texts, add_special_tokens=False)]
