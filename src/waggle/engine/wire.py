"""What an engine and the processes that follow its grammars tell one another, as bytes.

A device waits for these messages, so they are plain numbers, lists and tuples, which take a
fraction of the time that objects do; only what makes a grammar, and errors, are objects. Both ends
are ours and run the same Python.
"""

from __future__ import annotations

import marshal
import pickle
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from waggle.core.errors import WaggleError
from waggle.engine.backends.base import Pace
from waggle.engine.constraint.matcher import Make

PLAIN = 2
"""The last version of the format that does not look whether it has met a value before."""


class Opening(NamedTuple):
    """A row to be opened."""

    number: int
    make: bytes
    """What makes its grammar (see `packed`)."""
    tail: tuple[int, ...]
    room: int
    pace: tuple[float, int, int] | None


class Task(NamedTuple):
    """What is to be done next."""

    forget: bool
    """Whether all rows are gone."""
    unlearn: bool
    """Whether what was found out about grammars and answers is, too."""
    answers: list[tuple[int, list[int]]]
    """What the model said for rows, by their numbers."""
    openings: list[Opening]


class Plan(NamedTuple):
    """How a row goes on."""

    number: int
    pending: bytes
    """Tokens to be run (see `tokens`)."""
    asked: list[int]
    offers: list[tuple[int, ...]]
    said: list[int]
    """Tokens that were decided."""
    finish: str
    cached: int
    drafted: int
    accepted: int


def packed(make: Make) -> bytes:
    """Return what makes a grammar as bytes."""
    return pickle.dumps(make, protocol=5)


def unpacked(given: bytes) -> Make:
    """Return what makes a grammar."""
    found: Make = pickle.loads(given)
    return found


def spelled(tokens: Sequence[int]) -> bytes:
    """Return tokens as bytes."""
    return array("I", tokens).tobytes()


def tokens(given: bytes) -> memoryview[int]:
    """Return tokens that were spelled."""
    return memoryview(given).cast("I")


def task(given: Task) -> bytes:
    """Return a task as bytes."""
    openings = [(*opening,) for opening in given.openings]
    return marshal.dumps((given.forget, given.unlearn, given.answers, openings), PLAIN)


def read_task(given: bytes) -> Task:
    """Return a task."""
    forget, unlearn, answers, openings = marshal.loads(given)
    return Task(forget, unlearn, answers, [Opening(*opening) for opening in openings])


def pace(given: tuple[float, int, int] | None) -> Pace | None:
    """Return how far drafts reach."""
    return None if given is None else Pace(*given)


def plans(found: list[Plan]) -> bytes:
    """Return plans as bytes."""
    return marshal.dumps([(*plan,) for plan in found], PLAIN)


def failure(rows: int, error: Exception) -> bytes:
    """Return what stands for the plans of so many rows, of which there are none."""
    try:
        told = pickle.dumps(error, protocol=5)
        pickle.loads(told)
    except Exception:  # not every error can be sent
        told = pickle.dumps(WaggleError(f"{type(error).__name__}: {error}"), protocol=5)
    return marshal.dumps((rows, told), PLAIN)


def read_plans(given: bytes) -> tuple[int, list[Plan] | Exception]:
    """Return for how many rows there is an answer, and their plans or why there are none."""
    found = marshal.loads(given)
    if isinstance(found, tuple):
        rows, error = found
        return rows, pickle.loads(error)
    return len(found), [Plan(*plan) for plan in found]
