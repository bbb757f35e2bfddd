"""Port controls: laws that differ only in the channel they write on (controls for Silo).

Each writes its own evidence every round, on the port its rule names, commits to its proposal when
that is ready, and answers when ready or when the proposal says so. `first-listed` is the one law
here that looks at the place of a row: it shows what a sorted (canonical) order gives away, and is
exactly equivariant only in that order. All others break ties by lot, never by name or place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from waggle.core import seeds
from waggle.core.protocols import Decode, Request
from waggle.core.schema import MAX_BIN, Commitment, Decision, Evidence, Port, Trace, View
from waggle.laws import moves

OFFER = "offer"
"""Port fact: how much this node holds that the neighbour has neither sent nor been sent."""

SENT = "sent"
"""Port fact: rounds since the node last wrote there."""


class _PortRule:
    """Write own evidence on the port that `choose` names."""

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(self._decision(request)) for request in requests]

    def choose(self, request: Request) -> Port | None:
        """Name the port to write on, or None where nothing tells the ports apart."""
        raise NotImplementedError

    def _decision(self, request: Request) -> Decision:
        evidence, port = _own_evidence(request.view), self.choose(request)
        if evidence is None or port is None:
            return _answering(request.view, None)
        return _answering(request.view, moves.fresh(evidence, port.channel))


class RandomPort(_PortRule):
    """Write on a port drawn from the node's own entropy."""

    name: ClassVar[str] = "random-port"

    def choose(self, request: Request) -> Port | None:
        """Draw through the lots, so that the place of a row does not matter."""
        return moves.distinguished(
            request.view.private.channels,
            lambda port: (seeds.mix(request.entropy, port.lot), moves.port_key(port)),
        )


class RoundRobin(_PortRule):
    """Write on the port that has waited longest; ties fall to the lot."""

    name: ClassVar[str] = "round-robin"

    def choose(self, request: Request) -> Port | None:
        """Rank ports by rounds since last sent."""
        return _largest(request.view, SENT)


class MaxOffer(_PortRule):
    """Write on the port with the largest offer; ties fall to the lot."""

    name: ClassVar[str] = "max-offer"

    def choose(self, request: Request) -> Port | None:
        """Rank ports by offer."""
        return _largest(request.view, OFFER)


class FirstListed(_PortRule):
    """Take the first listed record: relay the first trace, else deposit the first evidence."""

    name: ClassVar[str] = "first-listed"

    def choose(self, request: Request) -> Port | None:
        """Name the first listed port."""
        return next(iter(request.view.private.channels), None)

    def _decision(self, request: Request) -> Decision:
        view, port = request.view, self.choose(request)
        if port is None:
            return _answering(view, None)
        trace = next(iter(moves.relayable(view)), None)
        own = next((e for e in view.private.evidence if e.conflict == 0), None)
        if trace is not None:
            return _answering(view, moves.relay(trace, port.channel))
        return _answering(view, None if own is None else moves.fresh(own, port.channel))


def _largest(view: View, fact: str) -> Port | None:
    """Return the port with the largest number under a fact; a missing fact counts as 0."""

    def key(port: Port) -> moves.Key:
        value = port.facts.get(fact, 0)
        return (value if isinstance(value, int) else 0, *moves.port_key(port))

    return moves.distinguished(view.private.channels, key)


def _own_evidence(view: View) -> Evidence | None:
    """Return the evidence for the node's own proposal, else its strongest evidence."""
    own = [e for e in view.private.evidence if e.claim == view.proposal.claim and e.conflict == 0]
    return own[0] if len(own) == 1 else moves.best_evidence(view)


def _answering(view: View, deposit: Trace | None) -> Decision:
    """Commit to a ready proposal and answer with it; otherwise take the private proposal."""
    claim, answer = view.proposal.claim, view.contract.response
    if claim is None or claim not in view.private.ready:
        return moves.act(view, deposit)
    taken = Commitment(claim, MAX_BIN) if view.commitment is None else None
    if answer is None or view.proposal.response is None:
        return moves.act(view, deposit, taken)
    deposits = () if deposit is None else (deposit,)
    return Decision(answer, view.proposal.response, deposits, taken)
