"""The engine's requests (prompts) and results (completions).

Invariant: a completion depends on its own prompt alone, never on other prompts in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from waggle.core.errors import ConfigError
from waggle.engine.constraint.matcher import Matcher

Tokens = Sequence[int]
TEMPERATURES = 1e-3, 1e3
"""The lowest and the highest temperature; outside this range logits would not stay numbers."""


class Sampling(msgspec.Struct, frozen=True):
    """The sampling parameters of an answer; the same prompt and key always give the same answer.

    Raises:
        ConfigError: for a temperature or a key out of range.
    """

    temperature: float
    """The divisor of the logits."""
    key: int
    """The seed of the noise, at most 63 bits; answers with different keys are independent."""

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
    """One tokenized request."""

    tail: Tokens
    prefix: tuple[int, ...] = ()
    """Tokens before the tail, which are run once for all prompts that share them."""
    grammar: Matcher | None = None
    """The grammar that constrains the answer; without one it is decoded freely."""
    max_new_tokens: int = 256
    ignore_end: bool = False
    """Ban the EOS tokens and decode exactly `max_new_tokens`: a forced length in `generate`."""
    sampling: Sampling | None = None
    """The sampling parameters; without them the most likely tokens are taken."""

    @property
    def positions(self) -> int:
        """The number of positions that the prompt and its longest answer take."""
        return len(self.prefix) + len(self.tail) + self.max_new_tokens

    def unsplit(self) -> Prompt:
        """Return the prompt with all of its tokens in the tail."""
        return msgspec.structs.replace(self, prefix=(), tail=(*self.prefix, *self.tail))

    def check(self, context: int) -> None:
        """Check that a model with `context` positions can answer the prompt.

        Raises:
            ConfigError: if the tail is empty, or prompt and answer are too long.
        """
        if not self.tail:
            raise ConfigError("a prompt needs at least one token after its prefix; give it a tail")
        if self.positions > context:
            raise ConfigError(
                f"prompt and answer need {self.positions} positions but the model has {context}; "
                "shorten the prompt or lower max_new_tokens"
            )


class Usage(msgspec.Struct, frozen=True):
    """The cost of one answer."""

    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that were run once for several prompts."""
    completion_tokens: int
    model_steps: int
    """Forward passes this request took part in, its prefill included."""
    drafted_tokens: int
    accepted_tokens: int


class Choice(msgspec.Struct, frozen=True, gc=False):
    """A sampled token and its log-probability."""

    offset: int
    """Its index in the completion's tokens; a sampled EOS has the index after the last token."""
    allowed: tuple[int, ...] | None
    """The tokens it was drawn from; None in free decoding: every token except a banned EOS."""
    logprob: float
    """Its log-probability under softmax(logits / temperature) over the allowed tokens."""


class Completion(msgspec.Struct, frozen=True):
    """An answer: its text without EOS, its tokens, its finish reason and its cost."""

    text: str
    tokens: tuple[int, ...]
    finish: str
    """`stop` (EOS or grammar exhausted) or `length`."""
    usage: Usage
    choices: tuple[Choice, ...] = ()
    """The tokens of a sampled answer that were not forced. Forced tokens have probability one, so
    the log-probability of the answer is the sum over the choices."""
