"""Interface-matched controls: NoComm, NativeMsg, FixedSwarm (App. "Baseline implementations").

They share topology, private proposals, legal actions and the runtime's interface with every law,
and differ in how they organise: NoComm not at all; NativeMsg by native messages whose traces live
for one round, without quorum or commitment; FixedSwarm by one fixed rule over finite-lifetime
signals. What a world stores of a message stays with every method: a place reported in Foraging,
Flocking or Transport, a contact's answer in AgentsNet and a snapshot in Silo outlive its trace.
If the task spreads data over ports (Silo), both communicating controls send one frame in every
round, on the port that the expert's port rule ranks first (`laws.exchange`), and answer as early as
the expert; on AgentsNet they answer by the fixed rules of `graph_answers`.
A write takes four steps: `_message` or `_signal` chooses its content, `_hedge` lowers its support,
`_address` puts it on channels, and `_decide` drops it if the node waits.
Invariant: a deterministic function of the view, with ties broken by lot; on Silo, where a frame is
sent in any case, the first listed of completely tied ports is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import msgspec

from waggle.baselines import graph_answers
from waggle.core.protocols import Decode, Request
from waggle.core.relations import refuted
from waggle.core.schema import (
    BROADCAST,
    MAX_BIN,
    WAIT,
    Commitment,
    Contract,
    Decision,
    Evidence,
    Port,
    Trace,
    View,
)
from waggle.laws import countdown, exchange, moves, places
from waggle.laws.controls import PrivateOnly
from waggle.runtime.switches import Switches

GLOBAL = ("agentsnet/consensus", "agentsnet/leader_election")
"""Graph tasks whose answer depends on the whole graph; the smallest priority is relayed there."""

_MATCHING = "agentsnet/matching"
"""The graph task whose writes name a partner, who may still change."""

_PROVISIONAL = 3
"""The coverage from which FixedSwarm holds its own partial proposal."""

_INHIBITION = 2
"""Amount that one bin of support on a channel subtracts from its standing in FixedSwarm."""

_NOTHING: Mapping[str, int] = MappingProxyType({})


class NoComm(PrivateOnly):
    """Act on the private proposal every round and send nothing."""

    name: ClassVar[str] = "nocomm"


class NativeMsg:
    """Send the strongest private evidence to contacts, without a lasting field or agreement.

    The field forgets every message after a round. The claim table of the view does not: where a
    world keeps reported places, the node follows a report that is older than its trace.
    """

    name: ClassVar[str] = "nativemsg"

    def switches(self, contract: Contract) -> Switches:
        """Allow repeated messages: a transient exchange does not remember what it sent."""
        return Switches(repeats=True)

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(native_message(request.view)) for request in requests]


class FixedSwarm:
    """Reopen, commit on quorum, deposit, relay: one hand-coded rule for every substrate."""

    name: ClassVar[str] = "fixedswarm"

    def switches(self, contract: Contract) -> Switches:
        """Keep duplicate suppression, except on tasks that send a frame in every round."""
        return Switches(repeats=_spreads_data(contract))

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(fixed_rule(request.view)) for request in requests]


def native_message(view: View) -> Decision:
    """Send the strongest private evidence for one round; act on what the view shows as reported."""
    evidence = _own_evidence(view)
    write = None if evidence is None else _hedge(view, moves.fresh(evidence, ""))
    deposits = () if write is None else _address(view, _make_transient(write))
    return moves.follow(view, _decide(view, deposits, None), places.goal(view))


def message_on(view: View, channel: str | None) -> Decision:
    """Act as `native_message` does, but send only on the given channel, or not at all."""
    deposits: tuple[Trace, ...] = ()
    if channel is not None and (write := _message(view)) is not None:
        deposits = (msgspec.structs.replace(write, channel=channel),)
    decision = moves.follow(view, _decide(view, deposits, None), places.goal(view))
    if _on_graph(view.contract) and not any("heard" in p.facts for p in view.private.channels):
        # A node that has received nothing has nothing to react to.
        return msgspec.structs.replace(decision, task_action=view.proposal.action)
    return decision


def _message(view: View) -> Trace | None:
    """Return a node's current message: its own evidence, else the best trace it received.

    If the whole graph has one answer, the smallest known priority is sent instead. If frames carry
    data, a message lives for one round only; otherwise it may be relayed.
    """
    smallest = _smallest(view)
    if smallest is not None:
        return moves.relay(smallest, "")
    evidence = _own_evidence(view)
    if evidence is not None:
        write = _hedge(view, moves.fresh(evidence, ""))
        return _make_transient(write) if _spreads_data(view.contract) else write
    trace = moves.best_trace(view, moves.relayable(view))
    return None if trace is None else moves.relay(trace, "")


def fixed_rule(view: View) -> Decision:
    """Apply the fixed rules of support, inhibition, quorum, reopening, decay and expiry."""
    if countdown.is_counted(view):
        return countdown.decide(view)
    against = moves.held_contradiction(view)
    if against is not None:
        challenge = _hedge(view, moves.fresh(against, ""))
        return _decide(view, _address(view, challenge, _support(view)), None)
    held = view.commitment
    commit = _quorum(view) if held is None else None
    signal = _signal(view, commit)
    deposits = () if signal is None else _address(view, _hedge(view, signal), _support(view))
    decision = _decide(view, deposits, commit, held or commit)
    return moves.follow(view, decision, places.goal(view))


def _quorum(view: View) -> Commitment | None:
    """Commit to the best ready claim, else provisionally to one with a quorum or enough coverage.

    A quorum is full support on two channels, and counts only if all nodes share one answer.
    """
    ready, coverage = moves.best_ready(view), view.private.coverage
    if ready is not None or coverage is None:
        return None if ready is None else Commitment(ready, MAX_BIN)
    agreed = moves.best_claim(view, _agreed(view))
    own = view.proposal.claim
    if agreed is None and coverage >= _PROVISIONAL and view.contract.deposits == 1:
        agreed = own
    return None if agreed is None else Commitment(agreed, coverage)


def _agreed(view: View) -> list[str]:
    """Return the unrefuted claims of a common answer that two or more channels fully support."""
    if view.private.observation.get("answer") != "common":
        return []
    full = Counter(t.claim for t in view.traces if t.support == MAX_BIN and not t.conflict)
    wrong = refuted(view)
    return [claim for claim, channels in full.items() if channels > 1 and claim not in wrong]


def _signal(view: View, commit: Commitment | None) -> Trace | None:
    """Return evidence for the new commitment, else fresh evidence, else a relay."""
    smallest = _smallest(view)
    if smallest is not None:
        return moves.relay(smallest, "")
    evidence = _own_evidence(view, None if commit is None else commit.claim)
    if evidence is not None and (evidence.novelty > 0 or _spreads_data(view.contract)):
        return moves.fresh(evidence, "")
    trace = moves.best_trace(view, moves.relayable(view))
    return None if trace is None else moves.relay(trace, "")


def _smallest(view: View) -> Trace | None:
    """Return the trace of the smallest known priority, unless it is the node's own."""
    if view.contract.task not in GLOBAL:
        return None
    first = [row.claim for row in view.private.claims if row.facts.get("order") == 0]
    return moves.best_trace(view, [t for t in moves.relayable(view) if t.claim in first])


def _own_evidence(view: View, claim: str | None = None) -> Evidence | None:
    """Return own evidence for the claim, else for the proposal, else the strongest."""
    own = [e for e in view.private.evidence if not e.conflict]
    for wanted in (claim, view.proposal.claim):
        match = [e for e in own if e.claim == wanted]
        if len(match) == 1:
            return match[0]
    return moves.best_evidence(view)


def _spreads_data(contract: Contract) -> bool:
    """Return whether frames carry task data over ports to an answer (Silo)."""
    return contract.response is not None


def _on_graph(contract: Contract) -> bool:
    """Return whether the task is one of AgentsNet's."""
    return contract.task.startswith("agentsnet/")


def _support(view: View) -> dict[str, int]:
    """Return the largest support that the traces of each channel carry."""
    found: dict[str, int] = {}
    for trace in view.traces:
        found[trace.channel] = max(trace.support, found.get(trace.channel, 0))
    return found


def _hedge(view: View, write: Trace) -> Trace:
    """Lower the support of a write about a matching partner that is not settled yet."""
    if view.contract.task == _MATCHING and not graph_answers.settled(view):
        return msgspec.structs.replace(write, support=min(write.support, 1))
    return write


def _make_transient(write: Trace) -> Trace:
    """Let a write live for one round only."""
    return msgspec.structs.replace(write, ttl=1)


def _address(
    view: View, write: Trace, inhibition: Mapping[str, int] = _NOTHING
) -> tuple[Trace, ...]:
    """Put a write on channels: as a broadcast if that is allowed, else on the best ports.

    Args:
        view: what the node sees.
        write: the deposit, without its channel.
        inhibition: support by channel, which lowers the channel's standing.
    """
    channels = [BROADCAST] if view.contract.broadcast else _best_ports(view, inhibition)
    return tuple(msgspec.structs.replace(write, channel=channel) for channel in channels)


def _best_ports(view: View, inhibition: Mapping[str, int]) -> list[str]:
    """Return the channels of the best ports, one for each deposit that is allowed.

    Ports of equal rank are left out, as only their names could decide between them. If all ports
    are tied, nothing is sent, except on Silo, where a frame must go somewhere in every round.
    """
    ranks = {p.channel: _rank(p, inhibition.get(p.channel, 0)) for p in view.private.channels}
    ranked = sorted(ranks, key=ranks.__getitem__, reverse=True)
    sharing = Counter(ranks.values())
    ports = [channel for channel in ranked if sharing[ranks[channel]] == 1]
    if not ports and _spreads_data(view.contract):
        ports = ranked
    return ports[: view.contract.deposits]


def _rank(port: Port, inhibition: int) -> moves.Key:
    """Rank a port as the expert does; ports with nothing to offer come last."""
    standing = exchange.standing(port) - _INHIBITION * inhibition
    return (exchange.offer(port) > 0, standing, *moves.port_key(port))


def _decide(
    view: View,
    deposits: tuple[Trace, ...],
    commit: Commitment | None,
    held: Commitment | None = None,
) -> Decision:
    """Return the answer if it is due, else the private action, with the writes and commitment."""
    proposal, answer = view.proposal, view.contract.response
    if answer is not None and proposal.response is not None and exchange.is_due(view):
        borrowed = held is not None and held.claim != proposal.claim
        intent = "FIELD" if borrowed else None
        return Decision(answer, proposal.response, deposits, commit, intent)
    action = moves.act(view)
    if _on_graph(view.contract):
        action = msgspec.structs.replace(action, task_action=graph_answers.answer(view))
    if action.task_action == WAIT and action.response is None:
        return action  # a node that waits can neither send nor commit
    return msgspec.structs.replace(action, deposits=deposits, commit=commit)
