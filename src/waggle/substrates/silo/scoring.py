"""Silo-Bench scores: S, strict S, official P and a multiset-aware P (specification section 3).

Official P is kept with its two defects: it uses the last index of a repeated gold value, and it
compares lists of lists as a whole. `matched` repairs exactly these two. Invariant: a missing or
unreadable answer is wrong, never an error.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any, NamedTuple

from waggle.substrates.silo.task import Level

MAX_ANSWER_CHARS = 1_000_000
_TOLERANCE = 0.01
_NUMBERS = frozenset((int, float))


class Credit(NamedTuple):
    """The credit for one agent's answer."""

    right: bool
    partial: float
    matched: float


class Score(NamedTuple):
    """The scores of one episode, each in 0..1."""

    success: float
    """S: share of agents whose answer equals the gold."""
    strict: float
    """1 iff every agent is right."""
    partial: float
    """P as the benchmark computes it."""
    matched: float
    """P with repeated values and nested lists credited."""


def score(credits: Sequence[Credit]) -> Score:
    """Return the scores of one credit per agent."""
    count, right = len(credits), sum(credit.right for credit in credits)
    return Score(
        success=right / count,
        strict=float(right == count),
        partial=fsum(credit.partial for credit in credits) / count,
        matched=fsum(credit.matched for credit in credits) / count,
    )


def rate(level: Level, answer: Any, gold: Any) -> Credit:
    """Return the credit of an answer against a gold; None means that no answer was submitted."""
    if answer is None:
        return Credit(False, 0.0, 0.0)
    answer, gold = normalise(answer), normalise(gold)
    partial = _partial(level, answer, gold)
    matched = partial
    if level == "III" and isinstance(gold, list) and isinstance(answer, list) and gold:
        matched = _common_subsequence(_keys(answer), _keys(gold)) / len(gold)
    return Credit(bool(answer == gold), partial, matched)


def normalise(answer: Any) -> Any:
    """Parse strings as int, float or JSON if possible, lists item by item; keep dict values."""
    if isinstance(answer, str):
        return _parse(answer)
    if isinstance(answer, (list, tuple)):
        if _NUMBERS.issuperset(map(type, answer)):  # long answers consist of such lists
            return list(answer)
        return [normalise(item) for item in answer]
    return answer


def _parse(text: str) -> Any:
    if len(text) > MAX_ANSWER_CHARS:
        return text
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    stripped = text.strip()
    if stripped[:1] in ("[", "{"):
        try:
            return normalise(json.loads(stripped))
        except (ValueError, RecursionError):
            return text
    return text


def _partial(level: Level, answer: Any, gold: Any) -> float:
    """Return the official P of one agent; both arguments are normalised."""
    if level == "I" and isinstance(gold, (bool, int, float)):
        return float(_close(answer, gold))
    if isinstance(gold, list) and isinstance(answer, list) and gold:
        if level == "II":
            return sum(bool(a == g) for a, g in zip(answer, gold, strict=False)) / len(gold)
        if level == "III" and not any(isinstance(item, list) for item in gold):
            return _by_last_index(answer, gold)
    return float(answer == gold)


def _close(answer: Any, gold: float) -> bool:
    if not isinstance(answer, (bool, int, float)):
        return False
    if gold == 0:
        return answer == 0
    try:
        return abs(answer - gold) / abs(gold) <= _TOLERANCE
    except OverflowError:
        return False


def _by_last_index(answer: list[Any], gold: list[Any]) -> float:
    index = {item: i for i, item in enumerate(gold)}
    known = [
        index[item] for item in answer if isinstance(item, (int, float, str)) and item in index
    ]
    return _longest_increase(known) / len(gold)


def _keys(items: list[Any]) -> list[Any]:
    """Return hashable keys; a nested value is represented by its JSON text."""
    return [
        item if isinstance(item, (int, float, str)) else json.dumps(item, default=str)
        for item in items
    ]


def _common_subsequence(answer: list[Any], gold: list[Any]) -> int:
    """Return the length of the longest common subsequence, as an increase in matching indices."""
    places: dict[Any, list[int]] = {}
    for i in range(len(gold) - 1, -1, -1):
        places.setdefault(gold[i], []).append(i)
    return _longest_increase(i for item in answer for i in places.get(item, ()))


def _longest_increase(sequence: Iterable[int]) -> int:
    tails: list[int] = []
    for value in sequence:
        place = bisect_left(tails, value)
        tails[place : place + 1] = [value]
    return len(tails)
