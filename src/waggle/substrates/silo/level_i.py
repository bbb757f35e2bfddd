"""Level I of Silo-Bench: ten aggregations over all shards (specification section 2).

The draw order is the upstream generator's; sums are kept per origin, so no shard counts twice.
"""

import heapq
import math
from collections.abc import Iterable
from functools import reduce
from operator import or_, xor
from random import Random
from typing import Any

from waggle.substrates.silo.task import (
    Draw,
    Setting,
    Task,
    TaskDraw,
    drawn_integers,
    drawn_items,
    of_all,
    of_items,
    own,
    split,
)

_FRUITS = ("apple", "banana", "cherry", "date", "elderberry", "fig", "grape")
_CANDIDATES = ("Candidate_A", "Candidate_B", "Candidate_C", "Candidate_D")
_LOG_LINES = (
    "INFO: System started",
    "DEBUG: Loading config",
    "WARNING: Low memory",
    "SUCCESS: Task completed",
    "TRACE: Function called",
)
_ERROR_LINE = "ERROR: Critical failure detected"


def _draw_words(rng: Random, n: int) -> TaskDraw:
    words = [rng.choice(_FRUITS) for _ in range(30 * n)]
    words[::10] = ["apple"] * len(words[::10])
    return TaskDraw(split(words, n), {})


def _draw_votes(rng: Random, n: int) -> TaskDraw:
    votes = [rng.choice(_CANDIDATES) for _ in range(25 * n)]
    winner = rng.choice(_CANDIDATES)
    votes[::2] = [winner] * len(votes[::2])
    return TaskDraw(split(votes, n), {})


def _draw_log(rng: Random, n: int) -> TaskDraw:
    lines = [rng.choice(_LOG_LINES) for _ in range(15 * n)]
    if rng.choice((True, False)):
        lines[rng.randint(0, len(lines) - 1)] = _ERROR_LINE
    return TaskDraw(split(lines, n), {})


def draw_values(*, shuffled: bool) -> Draw:
    """Return the draw of both distinct-count tasks: the domain is half the size of the sample."""
    return drawn_items(30, lambda rng, n: rng.randint(0, 15 * n - 1), shuffled=shuffled)


def _count_votes(shard: list[str], setting: Setting) -> tuple[int, ...]:
    return tuple(shard.count(candidate) for candidate in _CANDIDATES)


def _winner(parts: Iterable[Any]) -> str:
    totals = [sum(counts) for counts in zip(*parts, strict=True)]
    return _CANDIDATES[totals.index(max(totals))]


def _moments(shard: list[float], setting: Setting) -> tuple[int, float, float]:
    return len(shard), math.fsum(shard), math.fsum(x * x for x in shard)


def _mean(parts: Iterable[Any]) -> float:
    count, total, _ = (math.fsum(column) for column in zip(*parts, strict=True))
    return round(total / count, 2)


def _deviation(parts: Iterable[Any]) -> float:
    count, total, squares = (math.fsum(column) for column in zip(*parts, strict=True))
    mean = total / count
    return round(math.sqrt(max(0.0, squares / count - mean * mean)), 2)


def value_bits(shard: list[int], setting: Setting) -> int:
    """Return a set of small natural numbers as a bitmask: union is `|`, size is `bit_count`."""
    if not 0 <= min(shard) <= max(shard) < 64 * setting.n:
        raise ValueError("a value lies outside the domain of this task")
    bits = 0
    for value in shard:
        bits |= 1 << value
    return bits


def count_distinct(parts: Iterable[int]) -> int:
    """Return how many different values the known shards hold together."""
    return reduce(or_, parts).bit_count()


LEVEL_I = (
    Task(
        "I-01", "Global Max", "I", "Report the largest number held anywhere.",
        drawn_integers(20, -1000, 1000), lambda shard, _: max(shard), of_all(max),
    ),
    Task(
        "I-02", "Word Frequency", "I", 'Report how often the word "apple" occurs in all lists.',
        _draw_words, lambda shard, _: shard.count("apple"), of_all(sum),
    ),
    Task(
        "I-03", "Distributed Vote", "I", "Report the candidate with the most votes.",
        _draw_votes, _count_votes, of_all(_winner), needs=own,
    ),
    Task(
        "I-04", "Any Match", "I", 'Report whether any log line anywhere contains "ERROR".',
        _draw_log, lambda shard, _: any("ERROR" in line for line in shard), of_all(any),
        settled=any,
    ),
    Task(
        "I-05", "Range Count", "I", "Report how many numbers lie from 100 to 500, both included.",
        drawn_integers(30, 0, 1000), lambda shard, _: sum(100 <= x <= 500 for x in shard),
        of_all(sum), renew=lambda rng, shard, _: shard + [rng.randint(100, 500) for _ in range(3)],
    ),
    Task(
        "I-06", "Checksum", "I", "Report the bitwise exclusive or of all numbers.",
        drawn_integers(20, 0, 255), lambda shard, _: reduce(xor, shard),
        of_all(lambda parts: reduce(xor, parts)),
    ),
    Task(
        "I-07", "Average Value", "I", "Report the mean of all numbers, rounded to 2 decimals.",
        drawn_items(25, lambda rng, _: rng.uniform(0, 100)), _moments, of_all(_mean),
    ),
    Task(
        "I-08", "Set Union Size", "I", "Report how many different numbers there are.",
        draw_values(shuffled=False), value_bits, of_all(count_distinct),
    ),
    Task(
        "I-09", "Top-K Select", "I", "Report the 10 largest numbers, descending, repeats kept.",
        drawn_integers(30, 1, 1000), lambda shard, _: heapq.nlargest(10, shard),
        of_items(lambda items: heapq.nlargest(10, items)),
    ),
    Task(
        "I-10", "Standard Deviation", "I",
        "Report the population standard deviation of all numbers, rounded to 2 decimals.",
        drawn_items(30, lambda rng, _: rng.uniform(0, 100)), _moments, of_all(_deviation),
    ),
)  # fmt: skip
