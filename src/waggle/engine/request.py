"""What goes into the engine and what comes out.

Invariant: a completion depends on its own prompt alone; what else shares the batch never shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from waggle.core.errors import ConfigError
from waggle.engine.constraint.matcher import Matcher

Tokens = Sequence[int]


class Prompt(msgspec.Struct, frozen=True):
    """One request in tokens."""

    tail: Tokens
    prefix: tuple[int, ...] = ()
    """Tokens before the tail, which are run once for all prompts that share them."""
    grammar: Matcher | None = None
    """What the answer is constrained to; without one it is decoded freely."""
    max_new_tokens: int = 256
    ignore_end: bool = False
    """Ban the EOS tokens and decode exactly `max_new_tokens`, as a forced length in `generate`."""

    def unsplit(self) -> Prompt:
        """Return it with all of its tokens in the tail."""
        return msgspec.structs.replace(self, prefix=(), tail=(*self.prefix, *self.tail))

    def check(self, context: int) -> None:
        """Refuse a prompt that no model of so many positions can answer.

        Raises:
            ConfigError: where the tail is empty, or prompt and answer are too long.
        """
        if not self.tail:
            raise ConfigError("a prompt needs at least one token after its prefix; give it a tail")
        length = len(self.prefix) + len(self.tail) + self.max_new_tokens
        if length > context:
            raise ConfigError(
                f"prompt and answer need {length} positions but the model has {context}; "
                "shorten the prompt or lower max_new_tokens"
            )


class Usage(msgspec.Struct, frozen=True):
    """What one answer cost."""

    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that were run once for several prompts."""
    completion_tokens: int
    model_steps: int
    """Forward passes this request took part in, its prefill included."""
    drafted_tokens: int
    accepted_tokens: int


class Completion(msgspec.Struct, frozen=True):
    """An answer: its text without EOS, its tokens, why it ended, and its cost."""

    text: str
    tokens: tuple[int, ...]
    finish: str
    """`stop` (EOS or grammar exhausted) or `length`."""
    usage: Usage
