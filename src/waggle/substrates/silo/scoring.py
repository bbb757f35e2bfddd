"""Silo-Bench scores: S, strict S, official P and a multiset-aware P (specification section 3).

Official P is kept with its defects: the last index of a repeated gold value, and lists of lists
compared as a whole. `matched` repairs exactly those two and changes nothing else. Invariant: a
missing or unreadable answer is wrong, never an error.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from waggle.substrates.silo.task import Level

MAX_ANSWER_CHARS = 1_000_000
_TOLERANCE = 0.01


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


def normalise(answer: Any) -> Any:
    """Read strings as int, float or JSON where possible, lists item by item; dict values stay."""
    if isinstance(answer, str):
        return _parse(answer)
    if isinstance(answer, (list, tuple)):
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


def score_answers(level: Level, answers: Sequence[Any], golds: Sequence[Any]) -> Score:
    """Score one answer per agent (None = not submitted) against one gold per agent."""
    count = len(golds)
    pairs = [(normalise(a), normalise(g)) for a, g in zip(answers, golds, strict=True)]
    right = sum(_equal(a, g) for a, g in pairs)
    return Score(
        success=right / count,
        strict=float(right == count),
        partial=sum(partial_credit(level, a, g) for a, g in pairs) / count,
        matched=sum(matched_credit(level, a, g) for a, g in pairs) / count,
    )


def _equal(answer: Any, gold: Any) -> bool:
    return answer is not None and bool(answer == gold)


def partial_credit(level: Level, answer: Any, gold: Any) -> float:
    """One agent's share of official P; both sides normalised."""
    if level == "I" and isinstance(gold, (bool, int, float)):
        return float(_close(answer, gold))
    if isinstance(gold, list) and isinstance(answer, list) and gold:
        if level == "II":
            return _by_position(answer, gold)
        if level == "III" and not any(isinstance(item, list) for item in gold):
            return _by_last_index(answer, gold)
    return float(_equal(answer, gold))


def matched_credit(level: Level, answer: Any, gold: Any) -> float:
    """One agent's share of P with repeats and nested lists credited; both sides normalised."""
    if level == "III" and isinstance(gold, list) and isinstance(answer, list) and gold:
        return _common_subsequence(_keys(answer), _keys(gold)) / len(gold)
    return partial_credit(level, answer, gold)


def _close(answer: Any, gold: float) -> bool:
    if not isinstance(answer, (bool, int, float)):
        return False
    if gold == 0:
        return answer == 0
    try:
        return abs(answer - gold) / abs(gold) <= _TOLERANCE
    except OverflowError:
        return False


def _by_position(answer: list[Any], gold: list[Any]) -> float:
    hits = sum(bool(a == g) for a, g in zip(answer, gold, strict=False))
    return hits / len(gold)


def _by_last_index(answer: list[Any], gold: list[Any]) -> float:
    index = {item: i for i, item in enumerate(gold)}
    known = [
        index[item] for item in answer if isinstance(item, (int, float, str)) and item in index
    ]
    return _longest_increase(known) / len(gold)


def _keys(items: list[Any]) -> list[Any]:
    """Hashable stand-ins: nested values by their JSON text."""
    return [
        item if isinstance(item, (int, float, str)) else json.dumps(item, default=str)
        for item in items
    ]


def _common_subsequence(answer: list[Any], gold: list[Any]) -> int:
    """Longest common subsequence: an increase through all matching indices, latest first."""
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
