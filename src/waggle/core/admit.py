"""Admission: check whether a decision is legal on a view, and project those that are not.

`violations` checks a decision against the bounds of the schema and the relations of Section 3.2
(see `relations`) and returns stable codes; it reads only the view. `project` only deletes or falls
back on the private proposal: it never originates a claim, deposit, commitment or challenge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from waggle.core import decode
from waggle.core.bounds import LEGAL_DIRECTIONS, in_bins, in_range
from waggle.core.relations import (
    challenged,
    committable,
    is_fresh,
    is_incident,
    is_listed,
    is_relay,
    reopens,
    repeats,
    rows,
)
from waggle.core.schema import (
    BROADCAST,
    INTENTS,
    MAX_BIN,
    MAX_RESPONSE,
    MAX_TTL,
    WAIT,
    Commitment,
    Contract,
    Decision,
    Evidence,
    Trace,
    View,
    action_argument,
    is_open,
    is_wait,
    private_decision,
    takes_channel,
    takes_claim,
)

CODES: Mapping[str, str] = MappingProxyType(
    {
        **decode.CODES,
        "action.unknown": "The task action is one of the contract's actions.",
        "action.channel": "The argument of the task action is an incident channel.",
        "action.claim": "The argument of the task action is a claim of the claim table.",
        "intent.unknown": "The execution intent is PRIVATE, FIELD or WAIT, or is left out.",
        "response.missing": "The answering action carries a response.",
        "response.unexpected": "No action but the answering one carries a response.",
        "response.length": f"A response has at most {MAX_RESPONSE} characters.",
        "wait.deposit": "A wait writes no deposit.",
        "wait.commit": "A wait commits to nothing.",
        "wait.response": "A wait answers nothing.",
        "deposits.count": "A decision holds at most the contract's number of deposits.",
        "deposits.repeat": "No claim is written twice to one channel in a decision.",
        "deposit.channel": "A deposit goes to an incident channel, or to * where that is allowed.",
        "deposit.bins": f"Novelty, support and conflict are 0 to {MAX_BIN}.",
        "deposit.ttl": f"The ttl of a deposit is 1 to {MAX_TTL}.",
        "deposit.direction": "A direction is a compass point or HERE, as in the matched record.",
        "deposit.claim": "The claim of a deposit stands in private evidence or an incident trace.",
        "deposit.conflict": "Positive conflict is backed by evidence or by a conflicting trace.",
        "fresh.exceeds": "A fresh write stays within the private evidence on its claim.",
        "relay.amplify": "A relay has no component above the incident trace it repeats.",
        "relay.ttl": "A relay loses at least one ttl step.",
        "commit.bins": f"The confidence of a commitment is 0 to {MAX_BIN}.",
        "commit.unready": "A claim is committed only when it is ready.",
        "commit.unknown": "A provisional commitment is to a claim of the evidence or the traces.",
        "commit.coverage": "The confidence of a provisional commitment is at most the coverage.",
        "commit.held": "Another claim is committed only in an update that clears the held one.",
        "commit.challenged": "A decision does not commit to a claim it challenges.",
    }
)
"""Every code with which a decode can be refused, with the rule that it reports as broken."""

_INTENTS = frozenset((None, *INTENTS))
_NULL_WAIT = Decision(WAIT, None, (), None)


@lru_cache(maxsize=1024)
def _actions(contract: Contract) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the plain actions, the verbs that take a channel, and those that take a claim."""
    return (
        frozenset(a for a in contract.actions if not is_open(a)),
        frozenset(action_argument(a)[0] for a in contract.actions if takes_channel(a)),
        frozenset(action_argument(a)[0] for a in contract.actions if takes_claim(a)),
    )


def violations(view: View, decision: Decision) -> tuple[str, ...]:
    """Return the codes of every rule the decision breaks on this view; empty means admissible."""
    if not is_typed(decision):
        return ("shape.type",)
    codes = _act_violations(view, decision)
    deposits = decision.deposits
    if deposits:
        codes += _list_violations(view, deposits)
        for deposit in deposits:
            codes += _deposit_violations(view, deposit)
    if decision.commit is not None:
        codes += _commit_violations(view, decision, decision.commit)
    return tuple(dict.fromkeys(codes)) if codes else ()


def is_typed(decision: Decision) -> bool:
    """Return whether every field has its type; a law may have built the Decision itself."""
    if type(decision) is not Decision:
        return False
    commit = decision.commit
    return (
        type(decision.task_action) is str
        and (decision.response is None or type(decision.response) is str)
        and (decision.execution_intent is None or type(decision.execution_intent) is str)
        and type(decision.deposits) is tuple
        and all(map(_typed_trace, decision.deposits))
        and (commit is None or (type(commit) is Commitment and _typed_commit(commit)))
    )


def _typed_commit(commit: Commitment) -> bool:
    return type(commit.claim) is str and type(commit.confidence_bin) is int


def _typed_trace(deposit: Trace) -> bool:
    return (
        type(deposit) is Trace
        and type(deposit.channel) is str
        and type(deposit.claim) is str
        and type(deposit.novelty) is int
        and type(deposit.support) is int
        and type(deposit.conflict) is int
        and type(deposit.ttl) is int
        and (deposit.direction is None or type(deposit.direction) is str)
    )


def _action_code(view: View, action: str) -> str | None:
    plain, to_channel, to_claim = _actions(view.contract)
    if action in plain:
        return None
    verb, argument = action_argument(action)
    if argument is None:
        return "action.unknown"
    if verb in to_claim and is_listed(view, argument):
        return None
    if verb in to_channel:
        return None if is_incident(view, argument) else "action.channel"
    return "action.claim" if verb in to_claim else "action.unknown"


def _act_violations(view: View, decision: Decision) -> list[str]:
    codes = []
    code = _action_code(view, decision.task_action)
    if code is not None:
        codes.append(code)
    if decision.execution_intent not in _INTENTS:
        codes.append("intent.unknown")
    response, waits = decision.response, is_wait(decision)
    if response is None:
        if decision.task_action == view.contract.response:
            codes.append("response.missing")
    else:
        if decision.task_action != view.contract.response:
            codes.append("response.unexpected")
        if len(response) > MAX_RESPONSE:
            codes.append("response.length")
        if decode.SURROGATE.search(response):
            codes.append("text.encoding")
        if waits:
            codes.append("wait.response")
    if waits and decision.deposits:
        codes.append("wait.deposit")
    if waits and decision.commit is not None:
        codes.append("wait.commit")
    return codes


def _list_violations(view: View, deposits: Sequence[Trace]) -> list[str]:
    codes = []
    if len(deposits) > view.contract.deposits:
        codes.append("deposits.count")
    if len(deposits) > 1 and len({(d.channel, d.claim) for d in deposits}) != len(deposits):
        codes.append("deposits.repeat")
    return codes


def _deposit_violations(view: View, deposit: Trace) -> list[str]:
    codes = []
    if deposit.channel == BROADCAST:
        incident = view.contract.broadcast
    else:
        incident = is_incident(view, deposit.channel)
    if not incident:
        codes.append("deposit.channel")
    if not in_bins(deposit):
        codes.append("deposit.bins")
    if not in_range(deposit.ttl, MAX_TTL, 1):
        codes.append("deposit.ttl")
    if deposit.direction not in LEGAL_DIRECTIONS:
        codes.append("deposit.direction")
    if not codes and not is_fresh(view, deposit) and not is_relay(view, deposit):
        codes.append(_unfounded(view, deposit))
    return codes


def _unfounded(view: View, deposit: Trace) -> str:
    """Return the code of the relation that an in-range deposit fails most narrowly."""
    claim = deposit.claim
    found = [row for row in rows(view) if row.claim == claim]
    if not found:
        return "deposit.claim"
    if all(row.direction != deposit.direction for row in found):
        return "deposit.direction"
    if deposit.conflict > max(row.conflict for row in found):
        return "deposit.conflict"
    if any(repeats(deposit, trace) for trace in view.traces):
        return "relay.ttl"
    return "fresh.exceeds" if isinstance(found[0], Evidence) else "relay.amplify"


def _commit_violations(view: View, decision: Decision, commit: Commitment) -> list[str]:
    codes = []
    claim, held = commit.claim, view.commitment
    most = committable(view).get(claim)
    if not in_range(commit.confidence_bin):
        codes.append("commit.bins")
    if most is None:
        provisional = view.private.coverage is not None
        codes.append("commit.unknown" if provisional else "commit.unready")
    elif commit.confidence_bin > most and claim not in view.private.ready:
        codes.append("commit.coverage")
    against = challenged(decision.deposits)
    if held is not None and held.claim != claim and not reopens(view, against):
        codes.append("commit.held")
    if claim in against:
        codes.append("commit.challenged")
    return codes


def project(view: View, decision: Decision) -> Decision:
    """Delete invalid parts and replace an illegal action by the private proposal.

    The result is always admissible: if nothing else is, it is the private proposal without
    communication, and if that is illegal, a wait.
    """
    if not is_typed(decision):
        return fallback(view)
    action, response, intent = _project_act(view, decision)
    kept = Decision(action, response, (), None, intent)
    if not is_wait(kept):
        deposits = _project_deposits(view, decision.deposits)
        kept = Decision(action, response, deposits, None, intent)
        commit = decision.commit
        if commit is not None and not _commit_violations(view, kept, commit):
            kept = Decision(action, response, deposits, commit, intent)
    return kept if not violations(view, kept) else fallback(view)


def _project_act(view: View, decision: Decision) -> tuple[str, str | None, str | None]:
    intent = decision.execution_intent if decision.execution_intent in _INTENTS else None
    action, response = decision.task_action, decision.response
    if is_wait(decision):
        legal = _action_code(view, action) is None and action != view.contract.response
        return (action if legal else WAIT), None, intent
    answers = action == view.contract.response
    if answers and response is not None and len(response) <= MAX_RESPONSE:
        return action, response, intent
    if answers or _action_code(view, action) is not None:
        private = fallback(view)
        return private.task_action, private.response, intent
    return action, None, intent


def _project_deposits(view: View, deposits: Sequence[Trace]) -> tuple[Trace, ...]:
    kept: dict[tuple[str, str], Trace] = {}
    for deposit in deposits:
        if len(kept) == view.contract.deposits:
            break
        key = (deposit.channel, deposit.claim)
        if key not in kept and not _deposit_violations(view, deposit):
            kept[key] = deposit
    return tuple(kept.values())


def fallback(view: View) -> Decision:
    """Return the no-communication fallback: the private proposal, or a wait if that is illegal."""
    private = private_decision(view)
    return _NULL_WAIT if violations(view, private) else private
