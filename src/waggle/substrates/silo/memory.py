"""What a node remembers of each of its ports: its own sends and receipts, and nothing else.

The per-handle facts of a view (offer, recency, last heard intent) are read from here, so they can
hold nothing that did not pass through the node itself.
"""

from waggle.core.schema import Fact

OFFER_BINS = 15
"""The largest offer bin; 0 means that there is nothing the neighbour might lack."""
NEVER = 9
"""The recency of a port that was never used; used ports count 1 to 8."""


class PortMemory:
    """One port of one node."""

    __slots__ = ("credit", "heard", "intent", "sent", "told")

    def __init__(self) -> None:
        self.told = 0
        """Knowledge that was sent to the neighbour or heard from it."""
        self.sent = -1
        self.heard = -1
        """Rounds of the last frame sent and heard; -1 for never."""
        self.intent = "NONE"
        """The proposal intent of the last frame heard."""
        self.credit = 0
        """Bytes of the next shard that earlier frames already carried."""

    def facts(self, known: int, round: int) -> dict[str, Fact]:
        """The facts a view shows of this port."""
        fresh = (known & ~self.told).bit_count()
        return {
            "offer": -(-OFFER_BINS * fresh // known.bit_count()),
            "sent": _recency(self.sent, round),
            "heard": _recency(self.heard, round),
            "intent": self.intent,
        }


def _recency(last: int, round: int) -> int:
    return NEVER if last < 0 else min(round - last, NEVER - 1)


def pack(memory: PortMemory, arrivals: list[int], sizes: list[int], cap: int) -> int:
    """Take the next shards for a capped frame: what the neighbour may lack, oldest first.

    A shard longer than the room left is sent in pieces and counts once its last piece is sent.
    """
    room, packed = cap, 0
    for index in arrivals:
        if memory.told >> index & 1:
            continue
        rest = sizes[index] - memory.credit
        if rest > room:
            memory.credit += room
            break
        room -= rest
        memory.credit = 0
        packed |= 1 << index
    return packed
