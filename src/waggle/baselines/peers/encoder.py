"""The text encoder that the peers share: signed feature hashing to unit vectors of 64 numbers.

The original methods embed with sentence models (MiniLM, bge). Hashing needs no weights, is the same
on every machine, and distinguishes words, but does not capture that two words mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, reduce
from math import sqrt
from operator import add

from waggle.core.seeds import derive

WIDTH = 64
Vector = tuple[float, ...]


@lru_cache(maxsize=4096)
def encode(words: tuple[str, ...]) -> Vector:
    """Return the unit vector of the given words, or the zero vector if there are none."""
    found = [0.0] * WIDTH
    for word in words:
        bits = derive(0, "encoder", word)
        found[bits % WIDTH] += 1.0 if bits >> 32 & 1 else -1.0
    return normalised(found)


def normalised(vector: Iterable[float]) -> Vector:
    """Return a vector scaled to length one; a zero vector is returned unchanged."""
    values = tuple(vector)
    length = sqrt(_total(x * x for x in values))
    return tuple(x / length for x in values) if length else values


def similarity(one: Vector, two: Vector) -> float:
    """Return the cosine similarity of two unit vectors."""
    return _total(x * y for x, y in zip(one, two, strict=True))


def _total(terms: Iterable[float]) -> float:
    """Add from left to right: `sum` rounds differently from Python 3.12, which may alter routes."""
    return reduce(add, terms, 0.0)


def toward(vector: Vector, goal: Vector, share: float) -> Vector:
    """Return a vector moved a share of the way to another, scaled to length one."""
    pairs = zip(vector, goal, strict=True)
    return normalised((1 - share) * x + share * y for x, y in pairs)


def levels(task: str, low: int, high: int) -> Vector:
    """Encode a span of coverage bins, so that what is missing and what is held can be compared."""
    return encode((task, *(f"level {k}" for k in range(low, high))))
