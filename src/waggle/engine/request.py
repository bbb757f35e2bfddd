"""What goes into the engine and what comes out.

Invariant: a completion depends on its own prompt alone; what else shares the batch never shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from waggle.core.errors import ConfigError
from waggle.engine.constraint.matcher import Matcher

Tokens = Sequence[int]
TEMPERATURES = 1e-3, 1e3
"""The lowest and the highest temperature: beyond them logits would not stay numbers."""


class Sampling(msgspec.Struct, frozen=True):
    """How an answer is sampled; the same prompt and key always have the same answer.

    Raises:
        ConfigError: for a temperature or a key out of range.
    """

    temperature: float
    """What logits are divided by."""
    key: int
    """Names the noise: at most 63 bits. Answers with different keys are independent."""

    def __post_init__(self) -> None:
        """Check the values."""
        lowest, highest = TEMPERATURES
        if not lowest <= self.temperature <= highest:
            raise ConfigError(
                f"the temperature of a sampling must be from {lowest:g} to {highest:g}, not "
                f"{self.temperature:g}; to decode greedily leave the sampling out"
            )
        if not 0 <= self.key < 1 << 63:
            raise ConfigError("the key of a sampling must be from 0 to 2**63 - 1; drop some bits")


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
    sampling: Sampling | None = None
    """How the answer is sampled; without it the most likely tokens are taken."""

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


class Choice(msgspec.Struct, frozen=True, gc=False):
    """A token that was sampled, and with which probability."""

    offset: int
    """Where it is in the tokens of the completion; an EOS that was sampled is behind them all."""
    allowed: tuple[int, ...] | None
    """The tokens it was taken from; None in free decoding: all, or all but a banned EOS."""
    logprob: float
    """Its log-probability by softmax(logits / temperature) over these tokens."""


class Completion(msgspec.Struct, frozen=True):
    """An answer: its text without EOS, its tokens, why it ended, and its cost."""

    text: str
    tokens: tuple[int, ...]
    finish: str
    """`stop` (EOS or grammar exhausted) or `length`."""
    usage: Usage
    choices: tuple[Choice, ...] = ()
    """The tokens of a sampled answer that could have been others; all others were forced and have
    probability one, so that the log-probability of the answer is the sum over the choices."""
