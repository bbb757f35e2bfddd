"""Rules for which port to write on and when to answer, if frames carry data over ports (Silo).

A frame is worth what its receiver lacks, and data spreads fastest if every node receives one frame
per round. Partners are not assigned but coordinate through memory: a port on which this node and
its neighbour wrote in the same round is due again three rounds later, as both can tell; a port that
is due in the next round is skipped in this one. `_STANDING` weighs such histories against the offer
of a port; it was tuned on random graphs of 32 and 64 nodes, without evaluation seeds. The rule
ignores commitments and conflict, so the expert and both communicating controls share it.
Invariant: a choice depends on facts and lots, never on a name or the position of a row.
"""

from __future__ import annotations

from waggle.core.schema import Port, View
from waggle.laws import moves

_NEVER = 9
"""The recency fact of a port that was never used."""

_OFFER = 4
"""Weight of one bin of the offer."""

_STANDING = (
    (8, 3, 10, 4, 0, 16),
    (14, -5, 18, 7, 0, -3),
    (15, -3, 41, 51, 37, 41),
    (11, -3, 27, 0, 0, 0),
    (11, -3, 20, 0, 0, 0),
    (12, -8, 31, 0, 0, 36),
)
"""Score of a port's history by rounds since sent (rows) and heard: 1, 2, 3, 4, 5 up, never."""


_DOUBTED = -40
"""Score that replaces the history of a channel whose statements were contradicted."""


def listeners(view: View, least: int) -> list[Port]:
    """Return the ports to write on: all that offer `least` or more, or only the best of them.

    All are returned if there are enough deposits, sorted by lot, so that a record does not reveal
    the order of its view.
    """
    open_ports = [port for port in view.private.channels if offer(port) >= least]
    if view.contract.deposits >= len(open_ports):
        return sorted(open_ports, key=moves.port_key, reverse=True)
    chosen = moves.distinguished(open_ports, rank)
    return [] if chosen is None else [chosen]


def rank(port: Port) -> moves.Key:
    """Rank a port by standing, then by lot and facts."""
    return (standing(port), *moves.port_key(port))


def standing(port: Port) -> int:
    """Return the score of a port: its weighted offer plus the score of its history."""
    sent, heard = _recency(_fact(port, "sent")), _recency(_fact(port, "heard"))
    history = _DOUBTED if _fact(port, moves.DOUBT) else _STANDING[sent][heard]
    return _OFFER * offer(port) + history


def offer(port: Port) -> int:
    """Return how much this node holds that the neighbour may lack, in bins; 0 if unknown."""
    return _fact(port, "offer")


def is_due(view: View) -> bool:
    """Return whether to answer: it is proposed, or so late that an update may be missed."""
    return view.proposal.action == view.contract.response or view.budget <= 1


def _fact(port: Port, name: str) -> int:
    value = port.facts.get(name, 0)
    return value if isinstance(value, int) else 0


def _recency(rounds: int) -> int:
    return 5 if rounds >= _NEVER else min(max(rounds, 1), 5) - 1
