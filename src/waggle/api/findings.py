"""What stands against an episode, in one line each: why it is no result, and what to look at.

It is no result of its law or private worker if too many calls failed, or too many answers of the
worker were refused: nodes then keep their latest proposal, and the episode still ends with a score.
It is a result to look at if many decisions could not be executed as the law decoded them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from waggle.core.admit import CODES
from waggle.core.protocols import Law
from waggle.core.record import EpisodeRecord, Footer, Header, RoundRecord
from waggle.evaluate.failures import MAX_FAILED, why_failed
from waggle.runtime.staff import Refusal

REPLACED = ("projected", "fallback")
"""Stages of decisions that were not executable, even when the law was asked again."""


class Replacements:
    """A sink that counts why decisions were not executable, and remembers the first of them."""

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()
        self.first: tuple[int, int] | None = None
        """Round and agent."""

    def header(self, header: Header) -> None:
        """Take nothing from the header."""

    def round(self, entry: RoundRecord) -> None:
        """Count the first code of every decision of a round that was not executable."""
        for update in entry.updates:
            if update.stage in REPLACED:
                self.codes.update(update.codes[:1])
                self.first = self.first or (entry.round, update.node)

    def footer(self, footer: Footer) -> None:
        """Take nothing from the footer."""


def why_no_result(
    law: Law | None,
    counters: Mapping[str, int],
    worker: Mapping[str, Any],
    refusal: Refusal | None = None,
) -> str:
    """Return why an episode is no result of its law or private worker; empty if it is one.

    Args:
        law: the law that played it, if known, for its limit and its last error.
        counters: the counters of the episode.
        worker: the description of the worker in the record; empty if there is none.
        refusal: the first refused answer, if known.
    """
    failed = why_failed(law, counters)
    refused, calls = counters.get("worker.refused", 0), counters.get("worker.calls", 0)
    if failed or refused <= MAX_FAILED * calls:
        return failed
    told = ""
    if refusal is not None:
        answer = msgspec.json.encode(refusal.answer).decode()
        legal = ", ".join(refusal.actions)
        told = f"; the first is {answer:.60}" + (f", legal are {legal}" if legal else "")
    return (
        f"{refused:,} of {calls:,} answers of private worker {worker.get('name', '')!r} were "
        f"refused, over the limit of {MAX_FAILED:.0%}{told}"
    )


def why_look(
    counters: Mapping[str, int], found: Replacements, show: Callable[[tuple[int, int]], str]
) -> str:
    """Return one line if more than a fifth of the decisions were not executable as decoded.

    Args:
        counters: the counters of the episode.
        found: why they were not executable, if its record says so.
        show: returns what prints one of them, given its round and its agent.
    """
    bad = sum(counters.get(f"stage.{stage}", 0) for stage in REPLACED)
    updates = counters.get("updates", 0)
    if bad <= MAX_FAILED * updates:
        return ""
    most = found.codes.most_common(1)
    why = f" (mostly {most[0][0]}: {CODES.get(most[0][0], '')})" if most else ""
    see = f"; see `{show(found.first)}`" if found.first else ""
    return (
        f"{bad:,} of {updates:,} decisions were not executable{why}; what was legal of them, or "
        f"the private proposal, took their place{see}"
    )


def replacements(record: EpisodeRecord) -> Replacements:
    """Return why decisions of a finished episode were not executable."""
    found = Replacements()
    for entry in record.rounds:
        found.round(entry)
    return found
