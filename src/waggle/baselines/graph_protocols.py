"""Reference protocols: standard distributed algorithms as ceilings for the laws (spec 10).

A node program sees what a node of the randomized LOCAL model may see: its ports, its priority,
private random bits, the number of colours, and the messages of each port. Programs are not laws:
they keep private state, ignore the View, and are never used as a teacher. Invariants: an answer
uses only the node's own state; in each synchronous step all nodes send, then all receive; answers
follow after R steps; priorities are seeded by (graph, draw), so every protocol gets the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from waggle.core.seeds import derive, mix
from waggle.substrates.agentsnet.graphs import AgentGraph
from waggle.substrates.agentsnet.tasks import evaluate, round_budget

Inbox = Mapping[int, Any]
"""Messages of one step, by port."""


@dataclass(frozen=True)
class _Start:
    """The information that one node has before the first step."""

    task: str
    ports: int
    priority: int
    groups: int
    nodes: int
    """N, which AgentsNet gives its agents; only the leader without communication uses it."""
    bits: int
    """Seed of the node's private random draws."""

    def draw(self, count: int, step: int = 0) -> int:
        return mix(self.bits, step) % count


class _Program:
    """Base class of node programs; it sends nothing."""

    def __init__(self, start: _Start) -> None:
        self.start = start
        self.setup()

    def setup(self) -> None:
        """Initialise the private state."""

    def send(self, step: int) -> Inbox:
        """Return the messages of one step, by port."""
        return {}

    def receive(self, step: int, inbox: Inbox) -> None:
        """Process the messages of one step."""

    def answer(self) -> str | int:
        """Return the final answer; an integer is a port, for matching."""
        raise NotImplementedError

    def to_all(self, message: object) -> Inbox:
        """Address one message to every port."""
        return dict.fromkeys(range(self.start.ports), message)


class _AlwaysFirst(_Program):
    """The same fixed answer at every node: 0 in consensus, Yes elsewhere."""

    def answer(self) -> str:
        return "0" if self.start.task == "consensus" else "Yes"


class _RandomAnswer(_Program):
    """A uniform colour, or a uniform neighbour."""

    def answer(self) -> str | int:
        if self.start.task == "coloring":
            return f"Group {1 + self.start.draw(self.start.groups)}"
        return self.start.draw(self.start.ports)


class _LoneLeader(_Program):
    """Yes iff the priority is below 2^64 / N: one leader in expectation, no message."""

    def answer(self) -> str:
        return "Yes" if self.start.priority * self.start.nodes < 1 << 64 else "No"


class _MinimumFlood(_Program):
    """Flood the smallest priority seen, on change; both global tasks build on it."""

    def setup(self) -> None:
        self.smallest = self.start.priority
        self.changed = True

    def send(self, step: int) -> Inbox:
        changed, self.changed = self.changed, False
        return self.to_all(self.smallest) if changed else {}

    def receive(self, step: int, inbox: Inbox) -> None:
        smallest = min([self.smallest, *inbox.values()])
        self.changed = smallest < self.smallest
        self.smallest = smallest

    def answer(self) -> str:
        """Lead iff the smallest priority is the own one; in consensus, return its last bit."""
        if self.start.task == "consensus":
            return str(self.smallest & 1)
        return "Yes" if self.smallest == self.start.priority else "No"


class _InPriorityOrder(_Program):
    """Decide after every neighbour with a smaller priority has; announce the decision once."""

    def setup(self) -> None:
        self.rank: dict[int, int] = {}
        self.decided: dict[int, Any] = {}
        """Decisions of neighbours, by port."""
        self.own: Any = None
        self.announced = False

    def send(self, step: int) -> Inbox:
        if step == 0:
            return self.to_all(("priority", self.start.priority))
        if self.own is None or self.announced:
            return {}
        self.announced = True
        return self.to_all(("decision", self.own))

    def receive(self, step: int, inbox: Inbox) -> None:
        for port, (kind, value) in inbox.items():
            (self.rank if kind == "priority" else self.decided)[port] = value
        if self.own is None:
            smaller = [port for port, rank in self.rank.items() if rank < self.start.priority]
            self.own = self.decide(smaller)

    def decide(self, smaller: list[int]) -> Any:
        """Return the decision, or None while a smaller neighbour is undecided."""
        raise NotImplementedError


class _PriorityGreedy(_InPriorityOrder):
    """Greedy colouring: take the smallest colour that no decided neighbour has."""

    def decide(self, smaller: list[int]) -> int | None:
        return self._free()[0] if all(port in self.decided for port in smaller) else None

    def answer(self) -> str:
        """Return the colour; a node that ran out of rounds draws a free one."""
        if self.own is not None:
            return f"Group {self.own}"
        free = self._free()
        return f"Group {free[self.start.draw(len(free))]}"

    def _free(self) -> list[int]:
        return _without(self.start.groups, self.decided.values())


class _IndependentSet(_InPriorityOrder):
    """Complement of the priority MIS: join the set once every smaller neighbour is out."""

    def decide(self, smaller: list[int]) -> str | None:
        """Leave when a neighbour joined; join when all smaller neighbours left."""
        if "in" in self.decided.values():
            return "out"
        return "in" if all(self.decided.get(port) == "out" for port in smaller) else None

    def answer(self) -> str:
        """Cover unless in the independent set; an undecided node covers, to be safe."""
        return "No" if self.own == "in" else "Yes"


class _ColourRetreat(_Program):
    """Random colour, sent every step; on a clash the larger priority draws a free one."""

    def setup(self) -> None:
        self.colour = 1 + self.start.draw(self.start.groups)

    def send(self, step: int) -> Inbox:
        return self.to_all((self.start.priority, self.colour))

    def receive(self, step: int, inbox: Inbox) -> None:
        if any(c == self.colour and rank < self.start.priority for rank, c in inbox.values()):
            free = _without(self.start.groups, (colour for _, colour in inbox.values()))
            self.colour = free[self.start.draw(len(free), step + 1)]

    def answer(self) -> str:
        return f"Group {self.colour}"


class _Handshake(_Program):
    """Match locally dominant edges in phases of two steps: send "free", then point at the best.

    Edge weights are a hash of the two priorities, so both ends rank an edge alike. The vertex
    cover variant answers Yes at both ends of every matched edge.
    """

    def setup(self) -> None:
        self.rank: dict[int, int] = {}
        self.open = set(range(self.start.ports))
        self.choice: int | None = None
        self.partner: int | None = None
        self.announced = False

    def send(self, step: int) -> Inbox:
        """Announce on even steps, point on odd ones; a matched node announces that once."""
        if step % 2 == 0:
            return self._announce()
        if self.partner is not None or not self.open:
            return {}
        self.choice = min(self.open, key=self._weight)
        return {port: ("point", port == self.choice) for port in range(self.start.ports)}

    def receive(self, step: int, inbox: Inbox) -> None:
        """Update which neighbours are free; a mutual choice is a match."""
        if step % 2 == 0:
            free = {port: value for port, (kind, value) in inbox.items() if kind == "free"}
            self.rank |= free
            self.open = set(free)
        elif self.choice is not None and inbox.get(self.choice) == ("point", True):
            self.partner = self.choice

    def answer(self) -> str | int:
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


class _FullGather(_Program):
    """Gather the whole graph, then run the same greedy solver on it at every node.

    R >= D+1 holds for every budget, so each node learns all priorities and all rows of the graph.
    Its messages are unbounded, so no bounded law could imitate it.
    """

    def setup(self) -> None:
        self.rank: dict[int, int] = {}
        self.rows: dict[int, frozenset[int]] = {}
        """Priorities of the neighbours of a node, by its priority."""
        self.news: dict[int, frozenset[int]] = {}
        """Rows not yet sent to the neighbours."""

    def send(self, step: int) -> Inbox:
        if step == 0:
            return self.to_all(self.start.priority)
        news, self.news = self.news, {}
        return self.to_all(news) if news else {}

    def receive(self, step: int, inbox: Inbox) -> None:
        if step == 0:
            self.rank = dict(inbox)
            self.news[self.start.priority] = frozenset(inbox.values())
        else:
            for rows in inbox.values():
                self.news |= {key: row for key, row in rows.items() if key not in self.rows}
        self.rows |= self.news

    def answer(self) -> str | int:
        own = self.start.priority
        if self.start.task == "coloring":
            return f"Group {self._colours()[own]}"
        if self.start.task == "vertex_cover":
            return "No" if own in self._independent() else "Yes"
        partner = self._matching().get(own)
        return next((port for port, rank in self.rank.items() if rank == partner), "None")

    def _colours(self) -> dict[int, int]:
        """Return greedy colours by priority: the smallest that no smaller neighbour has."""
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
    """Return the free colours of 1 to `groups`; never empty, as `groups` is max degree + 1."""
    used = set(taken)
    return [colour for colour in range(1, groups + 1) if colour not in used]


PROTOCOLS: tuple[tuple[str, type[_Program], tuple[str, ...]], ...] = (
    ("everyone answers 0", _AlwaysFirst, ("consensus",)),
    ("min-priority flood", _MinimumFlood, ("consensus", "leader_election")),
    ("no comm: Yes iff u < 2^64/N", _LoneLeader, ("leader_election",)),
    ("priority greedy", _PriorityGreedy, ("coloring",)),
    ("random colour with retreat", _ColourRetreat, ("coloring",)),
    ("no comm: random", _RandomAnswer, ("coloring", "matching")),
    ("dominant edge handshake", _Handshake, ("matching",)),
    ("complement of priority MIS", _IndependentSet, ("vertex_cover",)),
    ("endpoints of maximal matching", _Handshake, ("vertex_cover",)),
    ("all Yes", _AlwaysFirst, ("vertex_cover",)),
    ("full gather and greedy", _FullGather, ("coloring", "matching", "vertex_cover")),
)
"""Label, program and tasks of every reference protocol."""


class Run(NamedTuple):
    """One episode of a reference protocol."""

    soft: float
    messages_per_agent: float


@dataclass(frozen=True)
class Row:
    """One row of the table: a protocol on a task, over graphs and priority draws."""

    task: str
    protocol: str
    strict: dict[int, float]
    """Share of solved episodes, by number of nodes."""
    soft: float
    messages_per_agent: float


def draw_priorities(graph: AgentGraph, draw: int) -> list[int]:
    """Return unique uniform 64-bit priorities; collisions are resampled."""
    priorities: dict[int, None] = {}
    attempt = 0
    while len(priorities) < graph.n:
        priorities[derive(draw, "agentsnet-priority", graph.id, attempt)] = None
        attempt += 1
    return list(priorities)


def run_protocol(program: type[_Program], task: str, graph: AgentGraph, draw: int) -> Run:
    """Play one episode of a reference protocol and return its official score."""
    bits = derive(draw, "agentsnet-reference-bits", graph.id)
    groups = graph.max_degree + 1
    nodes = [
        program(_Start(task, graph.degrees[v], priority, groups, graph.n, mix(bits, v)))
        for v, priority in enumerate(draw_priorities(graph, draw))
    ]
    back = [{v: port for port, v in enumerate(row)} for row in graph.adjacency]
    messages = 0
    for step in range(round_budget(task, graph)):
        inboxes: list[dict[int, object]] = [{} for _ in nodes]
        for v, node in enumerate(nodes):
            for port, message in node.send(step).items():
                target = graph.adjacency[v][port]
                inboxes[target][back[target][v]] = message
                messages += 1
        for node, inbox in zip(nodes, inboxes, strict=True):
            node.receive(step, inbox)
    answers = [node.answer() for node in nodes]
    official = [
        answer if isinstance(answer, str) else graph.names[graph.adjacency[v][answer]]
        for v, answer in enumerate(answers)
    ]
    return Run(evaluate(task, graph, official), messages / graph.n)


def reference_table(graphs: Sequence[AgentGraph], draws: int = 100) -> list[Row]:
    """Return the table of spec section 10 on the given graphs."""
    return [
        measure(label, program, task, graphs, draws)
        for label, program, tasks in PROTOCOLS
        for task in tasks
    ]


def measure(
    label: str, program: type[_Program], task: str, graphs: Sequence[AgentGraph], draws: int
) -> Row:
    """Return one row: strict score by size, and mean soft score and messages of all episodes."""
    runs = {g.id: [run_protocol(program, task, g, d) for d in range(draws)] for g in graphs}
    every = [run for group in runs.values() for run in group]
    strict = {
        n: fmean(run.soft == 1.0 for g in graphs if g.n == n for run in runs[g.id])
        for n in sorted({graph.n for graph in graphs})
    }
    soft = fmean(run.soft for run in every)
    return Row(task, label, strict, soft, fmean(run.messages_per_agent for run in every))
