"""Private proposals: the gold of the known shards, evaluated lazily, cached, and scored once.

Knowledge is a bitmask of 2n bits: bit o is set if the first version of origin o's shard is known,
bit n+o if the second is. Union is `|`, so no shard counts twice on a cyclic graph; the higher
version wins when a proposal is formed. Invariant: equal knowledge gives equal proposals, and a
claim is the shown text of an answer, so equal answers share one claim.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any

import msgspec

from waggle.core.schema import MAX_BIN, Contract, Json
from waggle.core.worker import Work
from waggle.substrates.silo.cases import Case
from waggle.substrates.silo.scoring import Credit, Score, normalise, rate, score

PIECES = (
    " The input is cut into pieces. A piece is [its place in the whole, its content]. Answer for "
    "the pieces that you hold as if they were all."
)
"""Text appended to the task's question for a private worker."""
WHOLE = " The other entries describe the whole input, also where you hold only pieces of it."
"""Text appended if the task has public parameters, which the benchmark tells every agent."""
MAX_TEXT = 32
"""Longest answer, in characters, that is shown verbatim; longer ones are shown as a digest."""


_WORDS = {"true": True, "false": False}
"""Claims that a string and a boolean answer share; they stand for the boolean."""


def show_answer(answer: Any) -> str:
    """Show an answer as compact JSON (strings bare) up to 32 characters, else as a digest."""
    if isinstance(answer, str) and len(answer) <= MAX_TEXT:
        return answer
    data = msgspec.json.encode(answer)
    text = data.decode()
    if len(text) <= MAX_TEXT:
        return text
    return "#" + blake2b(data, digest_size=8).hexdigest()


def _bits(known: int) -> list[int]:
    """Return the shard indices of a bitmask, ascending: first versions, then second ones."""
    return [index for index, bit in enumerate(bin(known)[:1:-1]) if bit == "1"]


class Proposer:
    """The proposals of one episode and their credits."""

    def __init__(self, case: Case) -> None:
        self._task = case.task
        self._setting = case.setting
        self._n = case.setting.n
        self._shards: dict[int, Any] = dict(enumerate(case.shards))
        self._parts: dict[int, Any] = {}
        self._texts: dict[int, str] = {}
        self._claims: dict[tuple[int, int], str] = {}
        self._settled: dict[int, bool] = {}
        """Knowledge -> whether it decides the answer although shards are missing."""
        self._answers: dict[str, Any] = {}
        """Claim -> the answer that it shows."""
        self._told = 0
        self._golds: list[Any] | None = None
        self._credits: dict[tuple[str | None, int], Credit] = {}

    def renew(self, origin: int, shard: Any) -> None:
        """Add the second version of a shard; later golds and credits use it."""
        self._shards[self._n + origin] = shard
        self._golds = None
        self._credits.clear()

    def claim(self, known: int, position: int) -> str:
        """Return the claim that `position` can make from `known`."""
        key = (known, position) if self._task.segmented else (known, -1)
        claim = self._claims.get(key)
        if claim is None:
            answer = self._task.combine(self._known_parts(known), position, self._setting)
            claim = self._claims[key] = show_answer(answer)
            self._answers[claim] = answer
        return claim

    def answer(self, known: int, position: int) -> Any:
        """Return the gold of the known shards, which is the substrate's proposal."""
        return self._answers[self.claim(known, position)]

    def adopt(self, answer: Any) -> str | None:
        """Return the claim for a private worker's answer, or None if the answer is unusable."""
        try:
            value = normalise(answer)
            claim = show_answer(value)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return None
        if not claim or not claim.isprintable():  # a claim is shown on terminals, too
            return None
        self._answers.setdefault(claim, _WORDS.get(claim, value))
        return claim

    def new_answers(self) -> dict[str, Any]:
        """Return the claims made since the last call, with their answers."""
        new = dict(islice(self._answers.items(), self._told, None))
        self._told = len(self._answers)
        return new

    def learn_answers(self, answers: Mapping[str, Any]) -> None:
        """Add claims that were made elsewhere, with their answers."""
        self._answers.update(answers)

    def work(self, known: int, position: int, contract: Contract) -> Work:
        """Return the request for a position's private worker: its own and the delivered pieces.

        A piece is its place in the whole and its content as JSON text. The public parameters are
        part of a worker's question only: no view of a law holds one.
        """
        newest = {index % self._n: index for index in _bits(known)}
        own = newest.pop(position)
        stated = self._task.stated(self._setting)
        asks = self._task.asks + PIECES + (WHOLE if stated else "")
        state = {"piece": [position, self._text(own)], **stated}
        pieces: list[Json] = [[place, self._text(newest[place])] for place in sorted(newest)]
        return Work(
            contract.task, asks, state, {"pieces": pieces},
            version=own // self._n, native=lambda: self.answer(known, position),
        )  # fmt: skip

    def _text(self, index: int) -> str:
        text = self._texts.get(index)
        if text is None:
            text = self._texts[index] = msgspec.json.encode(self._shards[index]).decode()
        return text

    def _known_parts(self, known: int) -> dict[int, Any]:
        newest = {index % self._n: index for index in _bits(known)}
        return {origin: self._part(newest[origin]) for origin in sorted(newest)}

    def _part(self, index: int) -> Any:
        part = self._parts.get(index)
        if part is None:
            part = self._parts[index] = self._task.summarise(self._shards[index], self._setting)
        return part

    def complete(self, known: int, position: int) -> bool:
        """Return whether `known` suffices for the position's answer (native constructibility)."""
        needs = self._task.needs(position, self._n)
        if (known | known >> self._n) & needs == needs:
            return True
        settled = self._settled.get(known)
        if settled is None:
            parts = self._known_parts(known).values()
            settled = self._settled[known] = self._task.settled(parts)
        return settled

    def coverage(self, known: int, position: int) -> int:
        """Return how much of what this position needs is known, in bins 0 to 4; 4 means all."""
        needs = self._task.needs(position, self._n)
        held = (known | known >> self._n) & needs
        return MAX_BIN * held.bit_count() // needs.bit_count()

    def gold(self, position: int) -> Any:
        """Return the right answer of a position, given the latest version of every shard."""
        if self._golds is None:
            newest = [self._shards.get(self._n + o, self._shards[o]) for o in range(self._n)]
            self._golds = self._task.golds(newest, self._setting)
        return self._golds[position]

    def renewed(self, origins: Sequence[int]) -> set[str]:
        """Return the claims of complete answers that use a second version of some origin."""
        whole = (1 << self._n) - 1
        mixtures = [whole]
        for origin in origins:
            mixtures += [known | 1 << (self._n + origin) for known in mixtures]
        positions = range(self._n) if self._task.segmented else (0,)
        return {self.claim(known, p) for known in mixtures[1:] for p in positions}

    def score(self, texts: list[str | None]) -> Score:
        """Return S, strict S, official P and multiset-aware P of one answering text per position.

        A text stands for the answer that it shows, or for itself if there is no such answer.
        """
        return score([self._credit(text, position) for position, text in enumerate(texts)])

    def is_right(self, text: str | None, position: int) -> bool:
        """Return whether an answering text equals the gold of its position."""
        return self._credit(text, position).right

    def _credit(self, text: str | None, position: int) -> Credit:
        key = (text, position if self._task.segmented else -1)
        credit = self._credits.get(key)
        if credit is None:
            answer = text if text is None else self._answers.get(text, text)
            credit = self._credits[key] = rate(self._task.level, answer, self.gold(position))
        return credit
