"""Expert rules for Silo: organise pairwise exchange from own sends and receipts alone.

A frame is worth what its receiver lacks, and a swarm in which every node receives exactly one frame
per round spreads fastest. Nobody can assign partners, but recency can: a port on which this node
and its neighbour met in the same round is visited again three rounds later, by both, since both
remember it. `_STANDING` says how much such a history adds to the offer of a port; its entries were
tuned on development seeds. Invariant: one view, one decision; ties fall to lots.
"""

from __future__ import annotations

from waggle.core.schema import MAX_BIN, Commitment, Decision, Evidence, Port, View
from waggle.laws import moves

_NEVER = 9
"""The recency fact of a port that was never used."""

_STANDING = (
    (0, 1, 3, -5, 3, 3),
    (3, -1, 5, -7, 0, 0),
    (2, -1, 5, 5, 17, 17),
    (1, -28, 9, -21, -6, -6),
    (2, -2, 7, 16, 5, 5),
    (2, -2, 7, 16, 5, 5),
)
"""What a port's history adds to its offer, by rounds since sent (row) and heard (column).

Rows and columns are 1, 2, 3, 4, 5 or more rounds, and never.
"""


def decide(view: View) -> Decision:
    """Reopen what is refuted, hold what is ready, tell whoever lacks most, answer in time."""
    against = moves.held_contradiction(view)
    news = against or _own_evidence(view)
    ports = _listeners(view, least=0 if against else 1)
    deposits = () if news is None else tuple(moves.fresh(news, port.channel) for port in ports)
    reopened = against is not None and bool(deposits)
    commit = _commitment(view) if view.commitment is None or reopened else None
    answers = _answers(view)
    return Decision(
        "ANSWER" if answers else "GATHER",
        view.proposal.response if answers else None,
        deposits,
        commit,
    )


def _own_evidence(view: View) -> Evidence | None:
    """Return the node's evidence for its own proposal."""
    rows = (e for e in view.private.evidence if e.claim == view.proposal.claim and not e.conflict)
    return next(rows, None)


def _answers(view: View) -> bool:
    """Answer when the proposal is to answer, and late enough that an update may be missed."""
    due = view.proposal.action == view.contract.response or view.budget <= 1
    return due and view.proposal.response is not None


def _commitment(view: View) -> Commitment | None:
    """Commit to the proposal once it is constructible; a partial answer is not worth binding."""
    claim = view.proposal.claim
    return Commitment(claim, MAX_BIN) if claim in view.private.ready and claim is not None else None


def _listeners(view: View, least: int) -> list[Port]:
    """Return the ports to write on: all with the least offer, or the one of highest standing."""
    open_ports = [port for port in view.private.channels if _fact(port, "offer") >= least]
    if view.contract.deposits >= len(open_ports):
        return open_ports
    chosen = moves.distinguished(open_ports, lambda port: (standing(port), *moves.port_key(port)))
    return [] if chosen is None else [chosen]


def standing(port: Port) -> int:
    """Rank a port: its offer, and what the history of its use adds to it."""
    sent, heard = _recency(_fact(port, "sent")), _recency(_fact(port, "heard"))
    return _fact(port, "offer") + _STANDING[sent][heard]


def _fact(port: Port, name: str) -> int:
    value = port.facts.get(name, 0)
    return value if isinstance(value, int) else 0


def _recency(rounds: int) -> int:
    return 5 if rounds >= _NEVER else min(max(rounds, 1), 5) - 1
