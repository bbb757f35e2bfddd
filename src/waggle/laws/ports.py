"""Port controls: laws that differ only in the channel they write on (controls for Silo).

Each writes its own evidence every round on the port that its rule chooses, commits to its proposal
or another claim once that is ready, never challenges, and answers when its proposal is ready or is
itself an answer. `first-listed` is the only law here that reads the position of a row: it shows how
much a sorted (canonical) order reveals, and is exactly equivariant only in that order. All others
break ties by lot, never by name or position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from waggle.core import seeds
from waggle.core.protocols import Decode, Request
from waggle.core.relations import strongest
from waggle.core.schema import MAX_BIN, Commitment, Decision, Evidence, Port, Trace, View
from waggle.laws import moves

OFFER = "offer"
"""Port fact: how much this node holds that was neither sent to nor by the neighbour."""

SENT = "sent"
"""Port fact: rounds since the node last wrote on the port."""


class _PortRule:
    """Base class: write own evidence on the port that `choose` returns."""

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(self._decision(request)) for request in requests]

    def choose(self, request: Request) -> Port | None:
        """Return the port to write on, or None if the ports are tied."""
        raise NotImplementedError

    def _decision(self, request: Request) -> Decision:
        view = request.view
        evidence, port = _own_evidence(view), self.choose(request)
        if evidence is None or port is None:
            return _answering(view, None, _ready(view))
        return _answering(view, moves.fresh(evidence, port.channel), _ready(view))


class RandomPort(_PortRule):
    """Write on a port drawn from the node's own entropy."""

    name: ClassVar[str] = "random-port"

    def choose(self, request: Request) -> Port | None:
        """Draw by the lots of the ports, so that the position of a row does not matter."""
        return moves.distinguished(
            request.view.private.channels,
            lambda port: (seeds.mix(request.entropy, port.lot), moves.port_key(port)),
        )


class RoundRobin(_PortRule):
    """Write on the port that has waited longest; ties are broken by lot."""

    name: ClassVar[str] = "round-robin"

    def choose(self, request: Request) -> Port | None:
        """Rank ports by rounds since last sent."""
        return _largest(request.view, SENT)


class MaxOffer(_PortRule):
    """Write on the port with the largest offer; ties are broken by lot."""

    name: ClassVar[str] = "max-offer"

    def choose(self, request: Request) -> Port | None:
        """Rank ports by offer."""
        return _largest(request.view, OFFER)


class FirstListed(_PortRule):
    """Take the first listed record: relay the first trace, else deposit the first evidence."""

    name: ClassVar[str] = "first-listed"

    def choose(self, request: Request) -> Port | None:
        """Return the first listed port."""
        return next(iter(request.view.private.channels), None)

    def _decision(self, request: Request) -> Decision:
        view, port = request.view, self.choose(request)
        ready = next(iter(view.private.ready), None)
        trace = next(iter(moves.relayable(view)), None)
        own = next((e for e in view.private.evidence if e.conflict == 0), None)
        row = trace or own
        deposit = None if port is None or row is None else strongest(row, port.channel)
        return _answering(view, deposit, ready)


def _largest(view: View, fact: str) -> Port | None:
    """Return the port with the largest value of a fact; a missing fact counts as 0."""

    def key(port: Port) -> moves.Key:
        value = port.facts.get(fact, 0)
        return (value if isinstance(value, int) else 0, *moves.port_key(port))

    return moves.distinguished(view.private.channels, key)


def _own_evidence(view: View) -> Evidence | None:
    """Return the evidence for the node's own proposal, else its strongest evidence."""
    own = [e for e in view.private.evidence if e.claim == view.proposal.claim and e.conflict == 0]
    return own[0] if len(own) == 1 else moves.best_evidence(view)


def _answering(view: View, deposit: Trace | None, claim: str | None) -> Decision:
    """Write, commit to a ready claim if none is held, and answer with a ready proposal."""
    deposit = deposit if view.contract.deposits else None
    commit = None
    if claim is not None and view.commitment is None:
        commit = Commitment(claim, MAX_BIN)
    answer, proposal = view.contract.response, view.proposal
    if answer is None or proposal.response is None or proposal.claim not in view.private.ready:
        return moves.act(view, deposit, commit)
    return Decision(answer, proposal.response, () if deposit is None else (deposit,), commit)


def _ready(view: View) -> str | None:
    """Return the node's own proposal if it is ready, else the best ready claim."""
    if view.proposal.claim in view.private.ready:
        return view.proposal.claim
    return moves.best_claim(view, view.private.ready)
