"""Silo-Bench scores: S, strict S, official P and a multiset-aware P (specification section 3).

Official P is kept with its defects: the last index of a repeated gold value, and lists of lists
compared as a whole. `matched` repairs exactly those two and changes nothing else. Invariant: a
missing or unreadable answer is wrong, never an error.
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
    """What one agent's answer earns."""

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
    """Return what an answer earns against a gold; None is an answer that was not submitted."""
    if answer is None:
        return Credit(False, 0.0, 0.0)
    answer, gold = normalise(answer), normalise(gold)
    partial = _partial(level, answer, gold)
    matched = partial
    if level == "III" and isinstance(gold, list) and isinstance(answer, list) and gold:
        matched = _common_subsequence(_keys(answer), _keys(gold)) / len(gold)
    return Credit(bool(answer == gold), partial, matched)


def normalise(answer: Any) -> Any:
    """Read strings as int, float or JSON where possible, lists item by item; dict values stay."""
    if isinstance(answer, str):
        return _parse(answer)
    if isinstance(answer, (list, tuple)):
        if _NUMBERS.issuperset(map(type, answer)):  # long answers are made of such lists
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
    """Return official P of one agent; both sides normalised."""
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
    """Return hashable stand-ins: nested values by their JSON text."""
    return [
        item if isinstance(item, (int, float, str)) else json.dumps(item, default=str)
        for item in items
    ]


def _common_subsequence(answer: list[Any], gold: list[Any]) -> int:
    """Return the longest common subsequence: an increase through all matching indices."""
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
