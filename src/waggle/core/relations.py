"""How a decision relates to the view it is made on: fresh or relayed, verified, committable.

This is the only implementation of the rules of Section 3.2. `admit` checks a decision against
them, `options` lists every decision that satisfies them (as do templates and the grammar of
constrained decoding), and rule-based laws write the strongest deposits they allow.
Invariant: every function reads only the view and the write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from waggle.core.schema import MAX_BIN, MAX_TTL, Decision, Evidence, Trace, View


def is_incident(view: View, channel: str) -> bool:
    """Return whether a handle is in the view's channel table."""
    return channel in [port.channel for port in view.private.channels]


def is_listed(view: View, claim: str) -> bool:
    """Return whether a claim is in the view's claim table."""
    return claim in [row.claim for row in view.private.claims]


def rows(view: View) -> tuple[Evidence | Trace, ...]:
    """Return everything that can back a write: private evidence, then incident traces."""
    return (*view.private.evidence, *view.traces)


def relay_ttl(trace: Trace) -> int:
    """Return the longest lifetime of a relay: one step less; 0 means it cannot be relayed."""
    return trace.ttl - 1


def strongest(row: Evidence | Trace, channel: str) -> Trace:
    """Return the strongest deposit that a row backs.

    Own evidence backs a fresh write for a full lifetime. An incident trace backs a relay, which
    amplifies nothing and loses a TTL step; with a lifetime of 0 no relay of it is legal.
    """
    ttl = MAX_TTL if isinstance(row, Evidence) else relay_ttl(row)
    return Trace(
        channel, row.claim, row.novelty, row.support, row.conflict, ttl, row.direction
    )  # fmt: skip


def repeats(deposit: Trace, row: Evidence | Trace) -> bool:
    """Return whether a deposit repeats a row without exceeding it; lifetimes are not compared."""
    if row.claim != deposit.claim:
        return False
    most = strongest(row, deposit.channel)
    return (
        deposit.novelty <= most.novelty
        and deposit.support <= most.support
        and deposit.conflict <= most.conflict
        and deposit.direction == most.direction
    )


def is_fresh(view: View, deposit: Trace) -> bool:
    """Return whether a deposit stays within one row of private evidence on its claim."""
    evidence = view.private.evidence
    return bool(evidence) and any(repeats(deposit, row) for row in evidence)


def is_relay(view: View, deposit: Trace) -> bool:
    """Return whether a deposit repeats an incident trace that lives longer than it does."""
    return any(repeats(deposit, t) and deposit.ttl <= relay_ttl(t) for t in view.traces)


def hides_conflict(view: View, deposit: Trace) -> bool:
    """Return whether a deposit has support, but less conflict than every trace that it relays."""
    conflicts = [trace.conflict for trace in view.traces]
    if deposit.support <= 0 or max(conflicts, default=0) <= deposit.conflict:
        return False  # the common case: no conflict to leave out
    relayed = [t for t in view.traces if deposit.ttl <= relay_ttl(t) and repeats(deposit, t)]
    return bool(relayed) and all(deposit.conflict < trace.conflict for trace in relayed)


def is_verified(view: View, claim: str) -> bool:
    """Return whether the node's own evidence contradicts a claim."""
    return any(row.claim == claim and row.conflict > 0 for row in view.private.evidence)


def refuted(view: View) -> set[str]:
    """Return the claims that the node's own evidence contradicts."""
    return {row.claim for row in view.private.evidence if row.conflict > 0}


def challenged(deposits: Iterable[Trace]) -> set[str]:
    """Return the claims on which the deposits write positive conflict."""
    return {deposit.claim for deposit in deposits if deposit.conflict > 0}


def reopens(view: View, claims: Collection[str]) -> bool:
    """Return whether challenging these claims clears the held commitment by verified conflict."""
    held = view.commitment
    return held is not None and held.claim in claims and is_verified(view, held.claim)


def clears(view: View, decision: Decision) -> bool:
    """Return whether a decision clears the held commitment by a verified conflict write."""
    return bool(decision.deposits) and reopens(view, challenged(decision.deposits))


def committable(view: View) -> dict[str, int]:
    """Return the claims that may be committed, each with its largest confidence.

    A ready claim allows any confidence; if commitments may be provisional, a claim of the
    evidence or the traces allows at most the coverage.
    """
    private = view.private
    found = dict.fromkeys(private.ready, MAX_BIN)
    if private.coverage is not None:
        for row in rows(view):
            found.setdefault(row.claim, private.coverage)
    return found
