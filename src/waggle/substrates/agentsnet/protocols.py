"""Standard distributed algorithms as node programs: the ceiling column beside the laws (spec 10).

A program sees what a randomized-LOCAL node may: its ports, its priority, private random bits, the
number of colours, and what arrived on each port. They are reference protocols, not laws: they
keep private state, ignore the View, and are never a teacher. Invariant: a program's answer uses
nothing but its own state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waggle.core.seeds import mix

Inbox = Mapping[int, Any]
"""What arrived in one step, by port."""


@dataclass(frozen=True)
class Seat:
    """What one node knows before the first step."""

    task: str
    ports: int
    priority: int
    groups: int
    nodes: int
    """N, which AgentsNet tells its agents; only the no-communication leader uses it."""
    bits: int
    """Root of the node's private random draws."""

    def draw(self, count: int, step: int = 0) -> int:
        """Return a private uniform draw below `count`."""
        return mix(self.bits, step) % count


class Program:
    """A node program; the base one stays silent."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.setup()

    def setup(self) -> None:
        """Initialise the private state."""

    def send(self, step: int) -> Inbox:
        """Return the messages of one step, by port."""
        return {}

    def receive(self, step: int, inbox: Inbox) -> None:
        """Take in what arrived in one step."""

    def answer(self) -> str | int:
        """Return the final answer; an integer is a port, for matching."""
        raise NotImplementedError

    def to_all(self, message: object) -> Inbox:
        """Address one message to every port."""
        return dict.fromkeys(range(self.seat.ports), message)


class AlwaysFirst(Program):
    """Everyone gives the same fixed answer: 0 in consensus, Yes elsewhere."""

    def answer(self) -> str:
        """Return the fixed answer."""
        return "0" if self.seat.task == "consensus" else "Yes"


class RandomAnswer(Program):
    """A uniform colour, or a uniform neighbour."""

    def answer(self) -> str | int:
        """Return the draw."""
        if self.seat.task == "coloring":
            return f"Group {1 + self.seat.draw(self.seat.groups)}"
        return self.seat.draw(self.seat.ports)


class LoneLeader(Program):
    """Yes iff the priority is below 2^64 / N: one leader in expectation, no message."""

    def answer(self) -> str:
        """Return the threshold test."""
        return "Yes" if self.seat.priority * self.seat.nodes < 1 << 64 else "No"


class MinimumFlood(Program):
    """Flood the smallest priority seen, on change: the common anchor of both global tasks."""

    def setup(self) -> None:
        """Start from the own priority."""
        self.smallest = self.seat.priority
        self.changed = True

    def send(self, step: int) -> Inbox:
        """Tell every neighbour the smallest priority when it changed."""
        changed, self.changed = self.changed, False
        return self.to_all(self.smallest) if changed else {}

    def receive(self, step: int, inbox: Inbox) -> None:
        """Keep the smallest priority heard."""
        smallest = min([self.smallest, *inbox.values()])
        self.changed = smallest < self.smallest
        self.smallest = smallest

    def answer(self) -> str:
        """Lead iff the smallest priority is the own one; agree on its last bit."""
        if self.seat.task == "consensus":
            return str(self.smallest & 1)
        return "Yes" if self.smallest == self.seat.priority else "No"


class PriorityGreedy(Program):
    """Colour after every smaller neighbour has: the smallest free colour, announced once."""

    def setup(self) -> None:
        """Nothing is known about the neighbours yet."""
        self.rank: dict[int, int] = {}
        self.taken: dict[int, int] = {}
        self.colour: int | None = None
        self.told = False

    def send(self, step: int) -> Inbox:
        """Send the priority first, then the colour once it is fixed."""
        if step == 0:
            return self.to_all(("priority", self.seat.priority))
        if self.colour is None or self.told:
            return {}
        self.told = True
        return self.to_all(("colour", self.colour))

    def receive(self, step: int, inbox: Inbox) -> None:
        """Learn ranks and colours; fix the own colour when no smaller neighbour is open."""
        for port, (kind, value) in inbox.items():
            (self.rank if kind == "priority" else self.taken)[port] = value
        smaller = [port for port, rank in self.rank.items() if rank < self.seat.priority]
        if self.colour is None and all(port in self.taken for port in smaller):
            self.colour = self.free()[0]

    def answer(self) -> str:
        """Return the colour; a node that ran out of rounds draws a free one."""
        if self.colour is not None:
            return f"Group {self.colour}"
        free = self.free()
        return f"Group {free[self.seat.draw(len(free))]}"

    def free(self) -> list[int]:
        """Return the colours no neighbour has announced."""
        return _without(self.seat.groups, self.taken.values())


class ColourRetreat(Program):
    """Random colour, told every step; on a clash the larger priority draws a free one."""

    def setup(self) -> None:
        """Draw the first colour."""
        self.colour = 1 + self.seat.draw(self.seat.groups)

    def send(self, step: int) -> Inbox:
        """Tell every neighbour priority and colour."""
        return self.to_all((self.seat.priority, self.colour))

    def receive(self, step: int, inbox: Inbox) -> None:
        """Retreat from a clash with a smaller priority."""
        if (self.colour, True) in {(c, rank < self.seat.priority) for rank, c in inbox.values()}:
            free = _without(self.seat.groups, (colour for _, colour in inbox.values()))
            self.colour = free[self.seat.draw(len(free), step + 1)]

    def answer(self) -> str:
        """Return the colour held."""
        return f"Group {self.colour}"


class Handshake(Program):
    """Match locally dominant edges in phases of two steps: say "free", then point at the best.

    Edge weights are a hash of the two priorities, so both ends rank an edge alike. The vertex
    cover variant answers Yes at both ends of every matched edge.
    """

    def setup(self) -> None:
        """Everyone starts free."""
        self.rank: dict[int, int] = {}
        self.open = set(range(self.seat.ports))
        self.choice: int | None = None
        self.partner: int | None = None
        self.told = False

    def send(self, step: int) -> Inbox:
        """Announce on even steps, point on odd ones; a matched node says so once."""
        if step % 2 == 0:
            return self._announce()
        if self.partner is not None or not self.open:
            return {}
        self.choice = min(self.open, key=self._weight)
        return {port: ("point", port == self.choice) for port in range(self.seat.ports)}

    def receive(self, step: int, inbox: Inbox) -> None:
        """Learn who is still free; a mutual choice is a match."""
        if step % 2 == 0:
            self.rank |= {port: value for port, (kind, value) in inbox.items() if kind == "free"}
            self.open = {port for port, (kind, _) in inbox.items() if kind == "free"}
        elif self.choice is not None and inbox.get(self.choice) == ("point", True):
            self.partner = self.choice

    def answer(self) -> str | int:
        """Return the partner's port, or None; Yes or No for the cover."""
        if self.seat.task == "vertex_cover":
            return "No" if self.partner is None else "Yes"
        return "None" if self.partner is None else self.partner

    def _announce(self) -> Inbox:
        if self.partner is None:
            return self.to_all(("free", self.seat.priority)) if self.open else {}
        told, self.told = self.told, True
        return {} if told else self.to_all(("matched", 0))

    def _weight(self, port: int) -> int:
        low, high = sorted((self.seat.priority, self.rank[port]))
        return mix(low, high)


class IndependentSet(Program):
    """Complement of the priority MIS: join when every smaller neighbour is out, then cover."""

    def setup(self) -> None:
        """Nothing is decided."""
        self.rank: dict[int, int] = {}
        self.state: dict[int, str] = {}
        self.own: str | None = None
        self.told = False

    def send(self, step: int) -> Inbox:
        """Send the priority first, then the decision once it is made."""
        if step == 0:
            return self.to_all(("priority", self.seat.priority))
        if self.own is None or self.told:
            return {}
        self.told = True
        return self.to_all(("state", self.own))

    def receive(self, step: int, inbox: Inbox) -> None:
        """Leave when a neighbour joined; join when all smaller neighbours left."""
        for port, (kind, value) in inbox.items():
            if kind == "priority":
                self.rank[port] = value
            else:
                self.state[port] = value
        if self.own is None:
            smaller = [port for port, rank in self.rank.items() if rank < self.seat.priority]
            if "in" in self.state.values():
                self.own = "out"
            elif all(self.state.get(port) == "out" for port in smaller):
                self.own = "in"

    def answer(self) -> str:
        """Cover unless in the independent set; an undecided node covers, to be safe."""
        return "No" if self.own == "in" else "Yes"


def _without(groups: int, taken: Iterable[int]) -> list[int]:
    """Return the colours 1 to `groups` that are not taken; never empty beside max-degree ports."""
    used = set(taken)
    return [colour for colour in range(1, groups + 1) if colour not in used]
