"""What goes into the engine and what comes out.

Invariant: a completion depends on its own prompt alone; what else shares the batch never shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from waggle.core.errors import ConfigError
from waggle.engine.constraint.matcher import Constraint


class Expectation(Protocol):
    """Somebody who will say, when the prompt is run, what the answer will probably be."""

    def tokens(self) -> tuple[int, ...]:
        """Return it, end token aside; nothing where nothing is expected."""
        ...

    def fits(self) -> bool:
        """Whether the prompt's grammar spells it with just these tokens; no where unknown."""
        ...


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
    draft: tuple[int, ...] | Expectation = ()
    """What the answer will probably be: run behind the prompt and verified by the model, token by
    token; never changes an answer."""
    max_new_tokens: int = 256
    ignore_end: bool = False
    """Ban the end tokens and decode exactly `max_new_tokens`, as a forced length in `generate`."""

    def unsplit(self) -> Prompt:
        """Return it with all of its tokens in the tail."""
        return replace(self, prefix=(), tail=(*self.prefix, *self.tail))

    def check(self, context: int) -> None:
        """Refuse what no model of so many positions can answer.

        Raises:
            ConfigError: where nothing comes behind the prefix, or too much.
        """
        if not self.tail:
            raise ConfigError("a prompt needs at least one token after its prefix; give it a tail")
        length = len(self.prefix) + len(self.tail) + self.max_new_tokens
        if length > context:
            raise ConfigError(
                f"prompt and answer need {length} positions but the model has {context}; "
                "shorten the prompt or lower max_new_tokens"
            )

    def expected(self) -> tuple[int, ...]:
        """Return what the answer will probably be, at most as long as it may be."""
        found = self.draft if isinstance(self.draft, tuple) else self.draft.tokens()
        return found[: self.max_new_tokens]

    def fits(self) -> bool:
        """Whether the expected answer is known to be one of the grammar."""
        return not isinstance(self.draft, tuple) and self.draft.fits()


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
