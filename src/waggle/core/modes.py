"""Derived analysis modes by precedence (Table "Precedence for assigning derived modes").

A mode is a label of an admitted decision; it is never an output of the law.
"""

from __future__ import annotations

from enum import StrEnum

from waggle.core.relations import is_fresh
from waggle.core.schema import Decision, View, is_wait


class Mode(StrEnum):
    """The six semantic acts, in order of precedence."""

    CHALLENGE = "Challenge"
    SYNTHESIZE = "Synthesize"
    DEPOSIT = "Deposit"
    RELAY = "Relay"
    EXPLORE = "Explore"
    ABSTAIN = "Abstain"


def mode(view: View, decision: Decision) -> Mode:
    """Return the first mode whose condition an admitted decision meets."""
    deposits = decision.deposits
    if deposits and any(deposit.conflict > 0 for deposit in deposits):
        return Mode.CHALLENGE
    if decision.commit is not None or decision.response is not None:
        return Mode.SYNTHESIZE
    if deposits:
        fresh = any(is_fresh(view, deposit) for deposit in deposits)
        return Mode.DEPOSIT if fresh else Mode.RELAY
    return Mode.ABSTAIN if is_wait(decision) else Mode.EXPLORE
