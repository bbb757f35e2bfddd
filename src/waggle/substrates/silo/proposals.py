"""Private proposals: the gold of what is known, evaluated lazily, cached, and scored once.

Knowledge is one integer of 2n bits: bit o says that the first version of origin o's shard is known,
bit n+o that the second is. Union is `|`, so no shard counts twice on a cyclic graph; the higher
version wins when a proposal is formed. Invariant: equal knowledge gives the equal proposal, and a
claim is the shown text of an answer, so equal answers are one claim.
"""

from collections.abc import Sequence
from hashlib import blake2b
from math import fsum
from typing import Any, NamedTuple

import msgspec

from waggle.substrates.silo.cases import Case
from waggle.substrates.silo.scoring import Score, matched_credit, normalise, partial_credit
from waggle.substrates.silo.task import Setting

MAX_TEXT = 32
"""Characters up to which an answer is shown as it is; longer ones are shown as a digest."""


class Offered(NamedTuple):
    """What a node could answer now."""

    claim: str
    """The text under which the answer is shown: its content, or a digest of it."""
    answer: Any


class Credit(NamedTuple):
    """What one bound answer earns at one position."""

    right: bool
    partial: float
    matched: float


_NOTHING = Credit(False, 0.0, 0.0)


def show_answer(answer: Any) -> str:
    """Show an answer as compact JSON (strings bare) up to 32 characters, else as a digest."""
    if isinstance(answer, str) and len(answer) <= MAX_TEXT:
        return answer
    text = msgspec.json.encode(answer)
    if len(text) <= MAX_TEXT:
        return text.decode()
    return "#" + blake2b(text, digest_size=8).hexdigest()


class Proposer:
    """The proposals of one episode, and what they earn."""

    def __init__(self, case: Case) -> None:
        self._task = case.task
        self._setting: Setting = case.setting
        self._n = case.setting.n
        self._shards: dict[int, Any] = dict(enumerate(case.shards))
        self._parts: dict[int, Any] = {}
        self._offers: dict[tuple[int, int], Offered] = {}
        self._texts: dict[str, Any] = {}
        self._golds: list[Any] | None = None
        self._credits: dict[tuple[str, int], Credit] = {}

    def renew(self, origin: int, shard: Any) -> None:
        """Add the second version of a shard; golds and credits follow it from now on."""
        self._shards[self._n + origin] = shard
        self._golds = None
        self._credits.clear()

    def propose(self, known: int, position: int) -> Offered:
        """The proposal of `position` on the basis of `known`."""
        key = (known, position) if self._task.segmented else (known, -1)
        offered = self._offers.get(key)
        if offered is None:
            answer = self._task.combine(self._known_parts(known), position, self._setting)
            claim = show_answer(answer)
            self._texts[claim] = answer
            offered = self._offers[key] = Offered(claim, answer)
        return offered

    def _known_parts(self, known: int) -> dict[int, Any]:
        bits = bin(known)[:1:-1]
        n = self._n
        parts = {p: self._part(p) for p, bit in enumerate(bits[:n]) if bit == "1"}
        for origin, bit in enumerate(bits[n:]):
            if bit == "1":
                parts[origin] = self._part(n + origin)
        return parts if len(bits) <= n else dict(sorted(parts.items()))

    def _part(self, index: int) -> Any:
        part = self._parts.get(index)
        if part is None:
            part = self._parts[index] = self._task.summarise(self._shards[index], self._setting)
        return part

    def complete(self, known: int, position: int) -> bool:
        """Whether what is known suffices for this position's answer (native constructibility)."""
        held = (known | known >> self._n) & self._needs(position)
        if held == self._needs(position):
            return True
        return self._task.settled(self._known_parts(known).values())

    def coverage(self, known: int, position: int) -> int:
        """Five bins of how much of what this position needs is known; 4 means all of it."""
        needs = self._needs(position)
        held = (known | known >> self._n) & needs
        return 4 * held.bit_count() // needs.bit_count()

    def _needs(self, position: int) -> int:
        return self._task.needs(position, self._n)

    def gold(self, position: int) -> Any:
        """The right answer of a position, given the latest version of every shard."""
        if self._golds is None:
            newest = [self._shards.get(self._n + o, self._shards[o]) for o in range(self._n)]
            self._golds = self._task.golds(newest, self._setting)
        return self._golds[position]

    def show_gold(self, position: int) -> str:
        """The claim of the right answer of a position."""
        return show_answer(self.gold(position))

    def renewed(self, origins: Sequence[int]) -> set[str]:
        """The claims of complete answers that rest on a second version of some of `origins`."""
        whole = (1 << self._n) - 1
        mixtures = [whole]
        for origin in origins:
            mixtures += [known | 1 << (self._n + origin) for known in mixtures]
        positions = range(self._n) if self._task.segmented else (0,)
        return {self.propose(known, p).claim for known in mixtures[1:] for p in positions}

    def resolve(self, text: str) -> Any:
        """What an answering text stands for: the answer shown by it, or the text as written."""
        return self._texts.get(text, text)

    def credit(self, text: str | None, position: int) -> Credit:
        """What an answering text earns at a position."""
        if text is None:
            return _NOTHING
        key = (text, position if self._task.segmented else -1)
        credit = self._credits.get(key)
        if credit is None:
            credit = self._credits[key] = self._rate(text, position)
        return credit

    def _rate(self, text: str, position: int) -> Credit:
        answer, gold = normalise(self.resolve(text)), normalise(self.gold(position))
        level = self._task.level
        return Credit(
            bool(answer == gold),
            partial_credit(level, answer, gold),
            matched_credit(level, answer, gold),
        )

    def score(self, texts: list[str | None]) -> Score:
        """S, strict S, official P and multiset-aware P of one answering text per position."""
        credits = [self.credit(text, position) for position, text in enumerate(texts)]
        right = sum(credit.right for credit in credits)
        return Score(
            success=right / self._n,
            strict=float(right == self._n),
            partial=fsum(credit.partial for credit in credits) / self._n,
            matched=fsum(credit.matched for credit in credits) / self._n,
        )
