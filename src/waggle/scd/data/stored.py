"""Decision batches straight from a token corpus, for backbones whose prompts share a long prefix.

The same records as `flats`, as lists for packed passes. Labels of rho are not stored: stage one has
no heads.
"""

from __future__ import annotations

from waggle.scd.data.records import Pair, Schedule
from waggle.scd.data.speller import Tokens
from waggle.scd.forward.forward import Encoded


class Stored:
    """Makes decision batches of a token corpus."""

    def __init__(self, tokens: Tokens, seed: int, batch: int) -> None:
        self._tokens, self._starts = tokens, tokens.starts()
        self._schedule = Schedule(len(tokens), batch, seed, "tokens")

    def batch(self, update: int) -> list[Pair]:
        """Return the records of an update."""
        return [self.pair(number) for number, _ in self._schedule.batch(update)]

    def pair(self, number: int) -> Pair:
        """Return one record."""
        start, prompt = int(self._starts[number]), int(self._tokens.prompts[number])
        ids = self._tokens.ids[start : start + int(self._tokens.lengths[number])].tolist()
        return Pair(Encoded(ids[:prompt], ids[prompt:]), None, ())
