"""The fallback for architectures the lean decoder does not support: transformers' own forward.

One cache per row, one row per pass: slow, but any causal language model works, prefix reuse
included. Drafts are not used because some caches cannot be rolled back.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from waggle.engine.backends.base import (
    DrawFuture,
    MultiStepOutput,
    MultiStepRow,
    RowInput,
    Text,
    TokenFuture,
)
from waggle.engine.model.config import refusal
from waggle.engine.model.decoder import greedy
from waggle.engine.sampling import draw, read_draws

MAX_PREFIXES = 4


class TransformersBackend:
    """A backend that runs rows one by one through a transformers model."""

    asynchronous = False
    multi_step = False
    verifies = False

    def __init__(self, model: Any) -> None:
        self.model = model
        self.device = model.device
        self._caches: dict[int, Any] = {}
        self._prefixes: OrderedDict[tuple[int, ...], Any] = OrderedDict()

    def decode_steps(
        self, rows: Sequence[MultiStepRow], ends: Sequence[int], history: Text | None
    ) -> list[MultiStepOutput]:
        """Raise: not supported, since rows are run one by one."""
        raise NotImplementedError("this model decodes one step at a time")

    def describe(self) -> str:
        """Return a short description of how this backend computes, for reports."""
        reason = refusal(self.model.config)
        return f"transformers, row by row{f' ({reason})' if reason else ''}"

    def room(self, prefix: int, own: int) -> int:
        """Return an unlimited number: every row has a separate cache."""
        return 1 << 30

    def reserve(self, prefix: int, own: int) -> None:
        """Do nothing: these caches grow by themselves."""

    def shrink(self, positions: int) -> None:
        """Do nothing: every cache is as long as its row."""

    def refresh(self, model: Any) -> None:
        """Use this model for all later passes."""
        self.model = model
        self.forget()

    def forget(self) -> None:
        """Drop every cache."""
        self._caches.clear()
        self._prefixes.clear()

    def release(self, slot: int) -> None:
        """Drop the cache of a finished row."""
        self._caches.pop(slot, None)

    def _prefix(self, tokens: tuple[int, ...]) -> Any:
        from transformers import DynamicCache

        if tokens not in self._prefixes:
            cache = DynamicCache(config=self.model.config)
            if tokens:
                self._forward(tokens, cache, 1)
            self._prefixes[tokens] = cache
            while len(self._prefixes) > MAX_PREFIXES:
                self._prefixes.popitem(last=False)
        self._prefixes.move_to_end(tokens)
        return copy.deepcopy(self._prefixes[tokens])

    def _forward(self, tokens: Sequence[int], cache: Any, wanted: int) -> Tensor:
        ids = torch.tensor([list(tokens)], device=self.device)
        found = self.model(
            input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=wanted
        )
        logits: Tensor = found.logits[0]
        return logits

    def run(self, rows: Sequence[RowInput]) -> Tensor:
        """Run tokens of each row; return the logits at the asked offsets of each."""
        found = []
        with torch.inference_mode():
            for slot, chunk, start, offsets, prefix in rows:
                if start == 0:
                    self._caches[slot] = self._prefix(prefix)
                kept = len(chunk) - offsets[0]
                logits = self._forward(chunk, self._caches[slot], kept)
                found.append(logits[[offset - offsets[0] for offset in offsets]])
            return torch.cat(found)

    def argmax(self, hidden: Tensor, banned: Sequence[int] = ()) -> TokenFuture:
        """Request the most likely next token of each row of logits, excluding banned tokens."""
        best = greedy(_open(hidden, None, banned))
        return lambda: best.tolist()

    def choose(self, hidden: Tensor, allowed: Sequence[tuple[int, ...]]) -> TokenFuture:
        """Request each row's most likely token among those it is allowed."""
        best = greedy(_open(hidden, allowed))
        return lambda: best.tolist()

    def sample(
        self,
        hidden: Tensor,
        own: Tensor,
        allowed: Sequence[tuple[int, ...]] | None = None,
        banned: Sequence[int] = (),
    ) -> DrawFuture:
        """Request a token of each row of logits, drawn by its own columns."""
        every = torch.arange(hidden.shape[1], device=hidden.device).unsqueeze(0)
        found = draw(_open(hidden, allowed, banned), every, own.to(hidden.device))
        return lambda: read_draws(found)


def _open(
    logits: Tensor, allowed: Sequence[tuple[int, ...]] | None, banned: Sequence[int] = ()
) -> Tensor:
    """Return logits that are minus infinity for tokens that may not be taken."""
    logits = logits.clone()
    logits[:, list(banned)] = float("-inf")
    for row, tokens in enumerate(allowed or ()):
        kept = logits[row, list(tokens)]
        logits[row] = float("-inf")
        logits[row, list(tokens)] = kept
    return logits
