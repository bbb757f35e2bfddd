"""How a write relates to the view it is made on: fresh, relayed, verified, reopening.

Section 3.2: a fresh write stays within private evidence, a relay within an incident trace; a claim
that the node's own evidence contradicts may be challenged, and a commitment to it reopened.
Invariant: every relation reads the view and the write alone.
"""

from __future__ import annotations

from waggle.core.schema import Decision, Evidence, Trace, View


def is_incident(view: View, channel: str) -> bool:
    """Whether a handle stands in the view's channel table."""
    return any(port.channel == channel for port in view.private.channels)


def is_fresh(view: View, deposit: Trace) -> bool:
    """Whether a deposit stays within one row of private evidence on its claim."""
    return any(_within(deposit, row) for row in view.private.evidence)


def is_relay(view: View, deposit: Trace) -> bool:
    """Whether a deposit repeats an incident trace, amplifies nothing and loses a ttl step."""
    return any(deposit.ttl < trace.ttl and _within(deposit, trace) for trace in view.traces)


def _within(deposit: Trace, row: Evidence | Trace) -> bool:
    """Whether a deposit claims no more than a row of evidence or an incident trace does."""
    return (
        row.claim == deposit.claim
        and deposit.novelty <= row.novelty
        and deposit.support <= row.support
        and deposit.conflict <= row.conflict
        and deposit.direction == row.direction
    )


def is_verified(view: View, claim: str) -> bool:
    """Whether the node's own evidence contradicts a claim."""
    return any(row.claim == claim and row.conflict > 0 for row in view.private.evidence)


def clears(view: View, decision: Decision) -> bool:
    """Whether the decision reopens the held commitment by a verified positive-conflict write."""
    held = view.commitment
    if held is None or not decision.deposits:
        return False
    challenged = any(d.claim == held.claim and d.conflict > 0 for d in decision.deposits)
    return challenged and is_verified(view, held.claim)
