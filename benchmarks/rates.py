"""Tokens per second of reading prompts and of writing answers, meant alike in every row.

* Prefill: the tokens of all prompts, shared and own, everything the model must have read, divided
  by the time to read them. Whoever keeps the shared beginning reads faster by this measure.
* Decode: the tokens of all answers divided by all other time.
* Run: tokens that really went through the model for one decision, padding and drafts included, so
  that nobody takes what was kept for what was computed.

Of the engine one batch is taken apart with every piece of work waited for. Passes with prompts are
prefill, but for the share of tokens drafted behind the prompts; steps, the output layer and the
host, grammars included, are decode. Of `generate` and of other libraries a batch with one new token
is prefill, and what longer answers take is decode: the first token's step and their own host work
count as prefill, all tokens of the answers as decode, which is in their favour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.setup import Ask

MEANING = (
    "prefill: prompt tokens (shared + own) per second of reading them; decode: answer tokens per "
    "second of all other time (of the engine: steps, output and host); run: tokens computed per "
    "decision"
)


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast tokens went; 0 where the time was too short to be seen."""

    prefill: float
    decode: float
    run: float
    """Tokens computed per decision."""


UNKNOWN = Rates(0.0, 0.0, 0.0)


class Batch(NamedTuple):
    """Some decisions and the seconds they took."""

    asks: Sequence[Ask]
    answers: Sequence[tuple[int, ...]]
    seconds: float

    @property
    def prompt(self) -> int:
        """Tokens of its prompts."""
        return sum(len(ask.prefix) + len(ask.tail) for ask in self.asks)

    @property
    def said(self) -> int:
        """Tokens of its answers."""
        return sum(map(len, self.answers))


def by_difference(first: Batch, whole: Batch, run: float) -> Rates:
    """Return the rates by a batch with one new token, and others with all of them."""
    read = first.seconds * whole.prompt / first.prompt
    return Rates(_rate(first.prompt, first.seconds), _rate(whole.said, whole.seconds - read), run)


def by_parts(batch: Batch, kept: int, reading: float, ran: dict[str, int]) -> Rates:
    """Return the rates of the engine.

    `reading` are the seconds of the passes with prompts, `ran` the tokens in these and in others;
    so many tokens as are `kept` of the prompts' beginnings are in neither.
    """
    read = reading * min(1.0, (batch.prompt - kept) / max(1, ran["prompt"]))
    run = sum(ran.values()) / len(batch.asks)
    return Rates(_rate(batch.prompt, read), _rate(batch.said, batch.seconds - read), run)


def _rate(tokens: int, seconds: float) -> float:
    return tokens / seconds if seconds > 0 else 0.0


def told(rates: Rates) -> str:
    """Return rates as columns of a row."""
    return f"{rates.prefill:7.0f} prefill/s {rates.decode:7.0f} decode/s {rates.run:6.0f} run"
