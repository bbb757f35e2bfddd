"""Moves shared by rule-based laws: rank, break ties, write, relay, challenge, commit.

Every move is exactly equivariant: a choice depends on numbers, facts and lots, never on a name or
the position of a row (Corollary 1). If content and lots leave the best candidates tied, the best
one without a tie is taken; if all are tied, the law stays silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from waggle.core.relations import is_listed, refuted, relay_ttl, strongest
from waggle.core.schema import (
    BROADCAST,
    WAIT,
    Commitment,
    Decision,
    Evidence,
    Fact,
    Port,
    Trace,
    View,
    action_argument,
    is_wait,
    private_decision,
    takes_claim,
)

Key: TypeAlias = tuple[Any, ...]
DOUBT = "doubt"
"""Port fact, if shown: the number of the channel's statements that own evidence contradicted."""
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
    """Return the facts of a row as a sortable key; facts are content, so they may break ties."""
    rows = ((name, 0, v) if isinstance(v, str) else (name, v, "") for name, v in facts.items())
    return tuple(sorted(rows))


def port_key(port: Port) -> Key:
    """Rank a port by lot, then by its facts."""
    return (port.lot, fact_key(port.facts))


def trace_rank(trace: Trace) -> Key:
    """Rank a trace by support, then novelty, then little conflict, then lifetime."""
    return (trace.support, trace.novelty, -trace.conflict, trace.ttl, trace.direction or "")


def port_keys(view: View) -> dict[str, Key]:
    """Return the sort key of every channel."""
    return {port.channel: port_key(port) for port in view.private.channels}


def doubts(view: View) -> dict[str, int]:
    """Return the number of contradicted statements of every channel that shows `DOUBT`."""
    rows = {p.channel: p.facts[DOUBT] for p in view.private.channels if DOUBT in p.facts}
    return {channel: doubt for channel, doubt in rows.items() if isinstance(doubt, int)}


def is_doubtful(view: View, claim: str) -> bool:
    """Return whether a claim was heard only on channels that own evidence contradicted."""
    doubted = doubts(view)
    heard = [trace.channel for trace in view.traces if trace.claim == claim] if doubted else []
    return bool(heard) and all(channel in doubted for channel in heard)


def claim_key(view: View, claim: str, ports: Mapping[str, Key] | None = None) -> Key:
    """Rank a claim by own support, then by the incident traces on it, then by its facts.

    The total support leaves out channels that own evidence contradicted. To rank several claims of
    one view, compute its `port_keys` once and pass them.
    """
    ports = port_keys(view) if ports is None else ports
    own = sorted((e.support, e.novelty) for e in view.private.evidence if e.claim == claim)
    heard = [trace for trace in view.traces if trace.claim == claim]
    rows = sorted((*trace_rank(trace), ports[trace.channel]) for trace in heard)
    facts = tuple(fact_key(row.facts) for row in view.private.claims if row.claim == claim)
    doubted = doubts(view)
    total = sum(trace.support for trace in heard if trace.channel not in doubted)
    proposed = view.proposal.claim == claim
    return (tuple(own[::-1]), total, tuple(rows[::-1]), proposed, facts)


def best_claim(view: View, claims: Iterable[str]) -> str | None:
    """Return the best-supported of the given claims, or None if they are tied."""
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
    """Return new verified conflict against a candidate, or None.

    A candidate is a claim that some channel supports while the node is committed to nothing. If
    several candidates are contradicted, the best-supported one is taken.
    """
    if view.commitment is not None:
        return None
    heard = {t.claim for t in view.traces if t.support > 0 and not t.conflict}
    against = [e for e in view.private.evidence if e.conflict and e.novelty and e.claim in heard]
    ports = port_keys(view) if against else {}
    return distinguished(
        against,
        lambda e: claim_key(view, e.claim, ports),
        lambda e: (e.conflict, e.novelty, e.direction or ""),
    )


def relayable(view: View) -> list[Trace]:
    """Return the traces worth relaying: alive after the hop and not refuted by own evidence.

    A trace with conflict is relayed only if own evidence verifies the conflict; the transport
    would suppress any other as an unverified challenge.
    """
    against = refuted(view)
    return [t for t in view.traces if relay_ttl(t) and (t.conflict > 0) == (t.claim in against)]


def best_ready(view: View) -> str | None:
    """Return the best-supported ready claim that own evidence does not contradict, or None."""
    against = refuted(view)
    return best_claim(view, [claim for claim in view.private.ready if claim not in against])


def best_trace(view: View, traces: Sequence[Trace]) -> Trace | None:
    """Return the best-supported of the given traces; ties are broken by the lot of the channel.

    Traces of channels that own evidence contradicted come last.
    """
    ports = {port.channel: port for port in view.private.channels}
    doubted = doubts(view)
    return distinguished(
        traces,
        lambda trace: (-doubted.get(trace.channel, 0), trace_rank(trace)),
        lambda trace: port_key(ports[trace.channel]),
        lambda trace: claim_key(view, trace.claim),
    )


def by_lot(view: View, avoid: Sequence[str] = ()) -> str | None:
    """Return the channel with the largest unique lot outside `avoid`, or `*` if that is allowed.

    Return None if the channels are tied or the contract allows no deposit.
    """
    if not view.contract.deposits:
        return None
    if view.contract.broadcast:
        return BROADCAST
    ports = [port for port in view.private.channels if port.channel not in avoid]
    chosen = distinguished(ports, port_key)
    return None if chosen is None else chosen.channel


def luck(view: View) -> int:
    """Return a private random number derived from the lots, whatever the channels are named."""
    draw = 0
    for lot in sorted(port.lot for port in view.private.channels):
        draw = draw * 17 + lot + 1
    return draw ^ (draw >> 3)


def fresh(evidence: Evidence, channel: str) -> Trace:
    """Write the node's own evidence at full strength and lifetime."""
    return strongest(evidence, channel)


def relay(trace: Trace, channel: str) -> Trace:
    """Relay a trace as strongly as the rules allow."""
    return strongest(trace, channel)


def best_evidence(
    view: View, wanted: Callable[[Evidence], bool] = lambda _: True
) -> Evidence | None:
    """Return the strongest wanted evidence in favour of a claim, or None."""
    own = [e for e in view.private.evidence if e.conflict == 0 and wanted(e)]
    return distinguished(
        own,
        lambda e: (e.support, e.novelty, e.direction or ""),
        lambda e: claim_key(view, e.claim),
    )


def follow(view: View, decision: Decision, claim: str | None) -> Decision:
    """Make a decision follow a listed claim, if the contract has such an action."""
    verb = next((a for a in view.contract.actions if takes_claim(a)), None)
    if verb is None or claim is None or is_wait(decision) or not is_listed(view, claim):
        return decision
    named = f"{action_argument(verb)[0]}:{claim}"
    return msgspec.structs.replace(decision, task_action=named)


def act(view: View, deposit: Trace | None = None, commit: Commitment | None = None) -> Decision:
    """Return the private proposal's action with a write and a commitment update.

    A wait may neither write nor commit, so both are dropped if the proposal is to wait; a write is
    dropped if the contract allows no deposits.
    """
    private = private_decision(view)
    if private.task_action == WAIT:
        return private
    deposits = () if deposit is None or not view.contract.deposits else (deposit,)
    return Decision(private.task_action, private.response, deposits, commit)
