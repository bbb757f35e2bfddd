"""Reference protocols: standard distributed algorithms as node programs (spec section 10).

A program sees what a randomized-LOCAL node may see: its ports, its priority, private random bits,
the number of colours, and what arrived on each port. Programs are ceilings beside the laws and no
laws themselves: they keep private state, ignore the View, and are never a teacher. Invariant: a
program's answer uses nothing but its own state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waggle.core.seeds import mix

Inbox = Mapping[int, Any]
"""What arrived in one step, by port."""


@dataclass(frozen=True)
class Start:
    """What one node knows before the first step."""

    task: str
    ports: int
    priority: int
    groups: int
    nodes: int
    """N, which AgentsNet tells its agents; only the leader without communication uses it."""
    bits: int
    """Root of the node's private random draws."""

    def draw(self, count: int, step: int = 0) -> int:
        """Return a private uniform draw below `count`."""
        return mix(self.bits, step) % count


class Program:
    """A node program; the base one sends nothing."""

    def __init__(self, start: Start) -> None:
        self.start = start
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
        return dict.fromkeys(range(self.start.ports), message)


class AlwaysFirst(Program):
    """Everyone gives the same fixed answer: 0 in consensus, Yes elsewhere."""

    def answer(self) -> str:
        """Return the fixed answer."""
        return "0" if self.start.task == "consensus" else "Yes"


class RandomAnswer(Program):
    """A uniform colour, or a uniform neighbour."""

    def answer(self) -> str | int:
        """Return the draw."""
        if self.start.task == "coloring":
            return f"Group {1 + self.start.draw(self.start.groups)}"
        return self.start.draw(self.start.ports)


class LoneLeader(Program):
    """Yes iff the priority is below 2^64 / N: one leader in expectation, no message."""

    def answer(self) -> str:
        """Return the threshold test."""
        return "Yes" if self.start.priority * self.start.nodes < 1 << 64 else "No"


class MinimumFlood(Program):
    """Flood the smallest priority seen, on change: the common anchor of both global tasks."""

    def setup(self) -> None:
        """Begin with the own priority."""
        self.smallest = self.start.priority
        self.changed = True

    def send(self, step: int) -> Inbox:
        """Send the smallest priority to every neighbour when it changed."""
        changed, self.changed = self.changed, False
        return self.to_all(self.smallest) if changed else {}

    def receive(self, step: int, inbox: Inbox) -> None:
        """Keep the smallest priority received."""
        smallest = min([self.smallest, *inbox.values()])
        self.changed = smallest < self.smallest
        self.smallest = smallest

    def answer(self) -> str:
        """Lead iff the smallest priority is the own one; agree on its last bit."""
        if self.start.task == "consensus":
            return str(self.smallest & 1)
        return "Yes" if self.smallest == self.start.priority else "No"


class InPriorityOrder(Program):
    """Decide after every neighbour with a smaller priority has; announce the decision once."""

    def setup(self) -> None:
        """Nothing is known about the neighbours yet."""
        self.rank: dict[int, int] = {}
        self.decided: dict[int, Any] = {}
        """Decisions of neighbours, by port."""
        self.own: Any = None
        self.announced = False

    def send(self, step: int) -> Inbox:
        """Send the priority first, then the decision once it is made."""
        if step == 0:
            return self.to_all(("priority", self.start.priority))
        if self.own is None or self.announced:
            return {}
        self.announced = True
        return self.to_all(("decision", self.own))

    def receive(self, step: int, inbox: Inbox) -> None:
        """Learn priorities and decisions, then try to decide."""
        for port, (kind, value) in inbox.items():
            (self.rank if kind == "priority" else self.decided)[port] = value
        if self.own is None:
            smaller = [port for port, rank in self.rank.items() if rank < self.start.priority]
            self.own = self.decide(smaller)

    def decide(self, smaller: list[int]) -> Any:
        """Return the decision, or None while a smaller neighbour is undecided."""
        raise NotImplementedError


class PriorityGreedy(InPriorityOrder):
    """Take the smallest colour that no decided neighbour has."""

    def decide(self, smaller: list[int]) -> int | None:
        """Return a colour once every smaller neighbour has one."""
        return self._free()[0] if all(port in self.decided for port in smaller) else None

    def answer(self) -> str:
        """Return the colour; a node that ran out of rounds draws a free one."""
        if self.own is not None:
            return f"Group {self.own}"
        free = self._free()
        return f"Group {free[self.start.draw(len(free))]}"

    def _free(self) -> list[int]:
        return _without(self.start.groups, self.decided.values())


class IndependentSet(InPriorityOrder):
    """Complement of the priority MIS: join when every smaller neighbour is out, then cover."""

    def decide(self, smaller: list[int]) -> str | None:
        """Leave when a neighbour joined; join when all smaller neighbours left."""
        if "in" in self.decided.values():
            return "out"
        return "in" if all(self.decided.get(port) == "out" for port in smaller) else None

    def answer(self) -> str:
        """Cover unless in the independent set; an undecided node covers, to be safe."""
        return "No" if self.own == "in" else "Yes"


class ColourRetreat(Program):
    """Random colour, sent every step; on a clash the larger priority draws a free one."""

    def setup(self) -> None:
        """Draw the first colour."""
        self.colour = 1 + self.start.draw(self.start.groups)

    def send(self, step: int) -> Inbox:
        """Send priority and colour to every neighbour."""
        return self.to_all((self.start.priority, self.colour))

    def receive(self, step: int, inbox: Inbox) -> None:
        """Retreat from a clash with a smaller priority."""
        if any(c == self.colour and rank < self.start.priority for rank, c in inbox.values()):
            free = _without(self.start.groups, (colour for _, colour in inbox.values()))
            self.colour = free[self.start.draw(len(free), step + 1)]

    def answer(self) -> str:
        """Return the colour held."""
        return f"Group {self.colour}"


class Handshake(Program):
    """Match locally dominant edges in phases of two steps: say "free", then point at the best.

    Edge weights are a hash of the two priorities, so both ends rank an edge alike. The vertex
    cover variant answers Yes at both ends of every matched edge.
    """

    def setup(self) -> None:
        """Everyone begins free."""
        self.rank: dict[int, int] = {}
        self.open = set(range(self.start.ports))
        self.choice: int | None = None
        self.partner: int | None = None
        self.announced = False

    def send(self, step: int) -> Inbox:
        """Announce on even steps, point on odd ones; a matched node says so once."""
        if step % 2 == 0:
            return self._announce()
        if self.partner is not None or not self.open:
            return {}
        self.choice = min(self.open, key=self._weight)
        return {port: ("point", port == self.choice) for port in range(self.start.ports)}

    def receive(self, step: int, inbox: Inbox) -> None:
        """Learn who is still free; a mutual choice is a match."""
        if step % 2 == 0:
            free = {port: value for port, (kind, value) in inbox.items() if kind == "free"}
            self.rank |= free
            self.open = set(free)
        elif self.choice is not None and inbox.get(self.choice) == ("point", True):
            self.partner = self.choice

    def answer(self) -> str | int:
        """Return the partner's port, or None; Yes or No for the cover."""
        if self.start.task == "vertex_cover":
            return "No" if self.partner is None else "Yes"
        return "None" if self.partner is None else self.partner

    def _announce(self) -> Inbox:
        if self.partner is None:
            return self.to_all(("free", self.start.priority)) if self.open else {}
        announced, self.announced = self.announced, True
        return {} if announced else self.to_all(("matched", 0))

    def _weight(self, port: int) -> int:
        low, high = sorted((self.start.priority, self.rank[port]))
        return mix(low, high)


class FullGather(Program):
    """Gather the whole graph, then run one greedy solver on it, the same at every node.

    R >= D+1 holds on every budget, so each node learns all priorities and all rows of the graph.
    Its messages are unbounded, so no bounded law could imitate it.
    """

    def setup(self) -> None:
        """Only the own priority is known."""
        self.rank: dict[int, int] = {}
        self.rows: dict[int, frozenset[int]] = {}
        """Neighbour priorities, by priority."""
        self.changed = False

    def send(self, step: int) -> Inbox:
        """Send the priority first, then every row known, when one is new."""
        if step == 0:
            return self.to_all(self.start.priority)
        changed, self.changed = self.changed, False
        return self.to_all(dict(self.rows)) if changed else {}

    def receive(self, step: int, inbox: Inbox) -> None:
        """Learn the neighbours' priorities first, then merge rows."""
        known = len(self.rows)
        if step == 0:
            self.rank = dict(inbox)
            self.rows[self.start.priority] = frozenset(inbox.values())
        else:
            for rows in inbox.values():
                self.rows |= rows
        self.changed = len(self.rows) > known

    def answer(self) -> str | int:
        """Solve the gathered graph greedily, smallest priority first."""
        own = self.start.priority
        if self.start.task == "coloring":
            return f"Group {self._colours()[own]}"
        if self.start.task == "vertex_cover":
            return "No" if own in self._independent() else "Yes"
        partner = self._matching().get(own)
        return next((port for port, rank in self.rank.items() if rank == partner), "None")

    def _colours(self) -> dict[int, int]:
        """Return the smallest colour no smaller neighbour has, by priority."""
        colours: dict[int, int] = {}
        for node in sorted(self.rows):
            used = {colours[v] for v in self.rows[node] if v in colours}
            colours[node] = next(c for c in range(1, len(used) + 2) if c not in used)
        return colours

    def _independent(self) -> set[int]:
        """Return the maximal independent set that takes smaller priorities first."""
        chosen: set[int] = set()
        for node in sorted(self.rows):
            if not self.rows[node] & chosen:
                chosen.add(node)
        return chosen

    def _matching(self) -> dict[int, int]:
        """Return the maximal matching that takes edges in order of (smaller, larger) priority."""
        partner: dict[int, int] = {}
        for node in sorted(self.rows):
            free = [v for v in self.rows[node] if v not in partner]
            if node not in partner and free:
                partner[node], partner[min(free)] = min(free), node
        return partner


def _without(groups: int, taken: Iterable[int]) -> list[int]:
    """Return the colours 1 to `groups` that are not taken; never empty beside max-degree ports."""
    used = set(taken)
    return [colour for colour in range(1, groups + 1) if colour not in used]
