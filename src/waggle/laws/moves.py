"""Small pure moves that rule-based laws share: rank, break ties, write, relay, challenge, commit.

Everything here is exactly equivariant: a choice depends on numbers, facts and lots, never on a
name or on the place of a row (Corollary 1). What content and lots leave tied is passed over for
the next best candidate that is distinguished, and a law that finds none stays silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from waggle.core.schema import (
    BROADCAST,
    MAX_TTL,
    WAIT,
    Commitment,
    Decision,
    Evidence,
    Fact,
    Port,
    Trace,
    View,
)

Key: TypeAlias = tuple[Any, ...]
_T = TypeVar("_T")


def distinguished(candidates: Iterable[_T], *keys: Callable[[_T], Key]) -> _T | None:
    """Return the candidate with the largest keys that no other candidate shares, or None.

    Later keys are computed only among candidates that the earlier ones leave tied.
    """
    rows = list(candidates)
    if len(rows) == 1:
        return rows[0]
    if not rows or not keys:
        return None
    groups: dict[Key, list[_T]] = {}
    for row in rows:
        groups.setdefault(keys[0](row), []).append(row)
    for value in sorted(groups, reverse=True):
        found = distinguished(groups[value], *keys[1:])
        if found is not None:
            return found
    return None


def fact_key(facts: Mapping[str, Fact]) -> Key:
    """Return the facts of a row as an orderable key: content, so free to break ties."""
    rows = ((name, 0, v) if isinstance(v, str) else (name, v, "") for name, v in facts.items())
    return tuple(sorted(rows))


def port_key(port: Port) -> Key:
    """Rank a port by lot, then by its facts."""
    return (port.lot, fact_key(port.facts))


def trace_rank(trace: Trace) -> Key:
    """Rank a trace by support, then novelty, then little conflict, then lifetime."""
    return (trace.support, trace.novelty, -trace.conflict, trace.ttl, trace.direction or "")


def port_keys(view: View) -> dict[str, Key]:
    """Return every channel's key."""
    return {port.channel: port_key(port) for port in view.private.channels}


def claim_key(view: View, claim: str, ports: Mapping[str, Key] | None = None) -> Key:
    """Rank a claim by own support, then by what incident traces say of it, then by its facts.

    Whoever ranks several claims of one view passes its `port_keys` once.
    """
    ports = port_keys(view) if ports is None else ports
    own = sorted((e.support, e.novelty) for e in view.private.evidence if e.claim == claim)
    told = [trace for trace in view.traces if trace.claim == claim]
    rows = sorted((*trace_rank(trace), ports[trace.channel]) for trace in told)
    facts = tuple(fact_key(row.facts) for row in view.private.claims if row.claim == claim)
    total = sum(trace.support for trace in told)
    proposed = view.proposal.claim == claim
    return (tuple(own[::-1]), total, tuple(rows[::-1]), proposed, facts)


def best_claim(view: View, claims: Iterable[str]) -> str | None:
    """Return the highest-supported of some claims, or None where nothing tells them apart."""
    ports = port_keys(view)
    return distinguished(claims, lambda claim: claim_key(view, claim, ports))


def contradiction(view: View, claim: str) -> Evidence | None:
    """Return the node's own evidence against a claim (verified conflict), or None."""
    against = [e for e in view.private.evidence if e.claim == claim and e.conflict > 0]
    return (
        max(against, key=lambda e: (e.conflict, e.novelty, e.direction or "")) if against else None
    )


def held_contradiction(view: View) -> Evidence | None:
    """Return the verified conflict against the claim the node is committed to, or None."""
    return None if view.commitment is None else contradiction(view, view.commitment.claim)


def candidate_contradiction(view: View) -> Evidence | None:
    """Return the verified conflict that is news against a candidate, or None.

    A candidate is a claim that some channel supports while the node holds none. Of several refuted
    ones the best-supported counts.
    """
    if view.commitment is not None:
        return None
    told = {t.claim for t in view.traces if t.support > 0 and not t.conflict}
    against = [e for e in view.private.evidence if e.conflict and e.novelty and e.claim in told]
    ports = port_keys(view) if against else {}
    return distinguished(
        against,
        lambda e: claim_key(view, e.claim, ports),
        lambda e: (e.conflict, e.novelty, e.direction or ""),
    )


def relayable(view: View) -> list[Trace]:
    """Return the traces worth passing on: alive after the hop, and not refuted by own evidence.

    A trace that only carries conflict is relayed where the node can vouch for the conflict itself;
    otherwise the transport would suppress it as an unverified challenge.
    """
    refuted = {e.claim for e in view.private.evidence if e.conflict > 0}
    return [t for t in view.traces if t.ttl > 1 and (t.conflict > 0) == (t.claim in refuted)]


def best_trace(view: View, traces: Sequence[Trace]) -> Trace | None:
    """Return the best-supported of some traces; ties fall to the lot of the channel."""
    ports = {port.channel: port for port in view.private.channels}
    return distinguished(
        traces,
        trace_rank,
        lambda trace: port_key(ports[trace.channel]),
        lambda trace: claim_key(view, trace.claim),
    )


def by_lot(view: View, avoid: Sequence[str] = ()) -> str | None:
    """Return the channel with the largest unshared lot outside `avoid`; `*` where it is allowed.

    None where nothing tells the channels apart or the contract allows no deposit.
    """
    if not view.contract.deposits:
        return None
    if view.contract.broadcast:
        return BROADCAST
    ports = [port for port in view.private.channels if port.channel not in avoid]
    chosen = distinguished(ports, port_key)
    return None if chosen is None else chosen.channel


def fresh(evidence: Evidence, channel: str) -> Trace:
    """Write the node's own evidence at full strength and lifetime."""
    return Trace(
        channel,
        evidence.claim,
        evidence.novelty,
        evidence.support,
        evidence.conflict,
        MAX_TTL,
        evidence.direction,
    )


def relay(trace: Trace, channel: str) -> Trace:
    """Pass a trace on unamplified, one TTL step shorter."""
    return Trace(
        channel,
        trace.claim,
        trace.novelty,
        trace.support,
        trace.conflict,
        trace.ttl - 1,
        trace.direction,
    )


def best_evidence(
    view: View, wanted: Callable[[Evidence], bool] = lambda _: True
) -> Evidence | None:
    """Return the strongest wanted evidence for a claim (without conflict), or None."""
    own = [e for e in view.private.evidence if e.conflict == 0 and wanted(e)]
    return distinguished(
        own,
        lambda e: (e.support, e.novelty, e.direction or ""),
        lambda e: claim_key(view, e.claim),
    )


def act(view: View, deposit: Trace | None = None, commit: Commitment | None = None) -> Decision:
    """Take the private proposal's action together with a write and a commitment update.

    A wait may neither write nor commit, so both are dropped where the proposal is to wait.
    """
    action = view.proposal.action
    answers = view.contract.response is not None and action == view.contract.response
    response = view.proposal.response if answers else None
    if action == WAIT:
        return Decision(WAIT, None, (), None)
    return Decision(action, response, () if deposit is None else (deposit,), commit)
