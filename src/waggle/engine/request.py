"""What goes into the engine and what comes out.

Invariant: a completion depends on its own prompt alone; what else shares the batch never shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from waggle.engine.constraint import Constraint


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request, already in tokens.

    With `grammar` the answer is constrained to it; with `skeleton` decoding stays free and the
    grammar's forced tokens are only proposed, then verified by the model.
    """

    tail: Sequence[int]
    prefix: tuple[int, ...] = ()
    grammar: Constraint | None = None
    skeleton: Constraint | None = None
    draft: tuple[int, ...] | Callable[[], tuple[int, ...]] = ()
    """What the answer will probably be, end token aside, or what says so when the prompt is run:
    run behind the prompt and verified by the model, token by token; never changes an answer."""
    max_new_tokens: int = 256
    ignore_end: bool = False
    """Ban the end tokens and decode exactly `max_new_tokens`, as a forced length in `generate`."""

    def expected(self) -> tuple[int, ...]:
        """Return what the answer will probably be, at most as long as it may be."""
        found = self.draft() if callable(self.draft) else self.draft
        return found[: self.max_new_tokens]


@dataclass(frozen=True, slots=True)
class Usage:
    """What one answer cost."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    model_steps: int
    """Forward passes this request took part in, its prefill included."""
    drafted_tokens: int
    accepted_tokens: int


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer: its text without end markers, its tokens, why it ended, and its cost."""

    text: str
    tokens: tuple[int, ...]
    finish: str
    """`stop` (end token or grammar exhausted) or `length`."""
    usage: Usage
