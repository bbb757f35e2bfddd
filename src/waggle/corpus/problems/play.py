"""A local graph problem on a small graph: the view of a node, and the effect of an update.

A node sees its own facts, the statements of its contacts, and a contract whose goal names the facts
by their random keys. A deposit of the node's own claim states the answer of the same decision and
its public numbers; contacts read both in the next update. The rule of a problem reads one view
through the keys of its task, so a label depends on the view alone; the same rule plays the problem
in closed loop up to its check. Invariant: what a node sees of another was deposited by that node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from waggle.core.schema import (
    BROADCAST,
    MAX_BIN,
    MAX_LOT,
    MAX_TRACES,
    MAX_TTL,
    WAIT,
    ClaimRow,
    Commitment,
    Contract,
    Decision,
    Evidence,
    Fact,
    Json,
    Port,
    Private,
    Proposal,
    Trace,
    View,
    action_argument,
)
from waggle.corpus.views import words
from waggle.corpus.views.rng import Draw
from waggle.laws import moves

Graph: TypeAlias = Sequence[Sequence[int]]
"""Contacts of every node."""
Choice: TypeAlias = int | Port | None
"""The choice of a rule: a plain action by its index, a contact, or None (wait)."""
TURN_EVERY = 3
"""Updates from one turn to the next, so that all nodes have seen the last turn's changes."""
Answer: TypeAlias = int | tuple[int]
"""A standing answer: a plain action by its index, or the node that it names."""
YOU, ANOTHER = -1, -2
"""Codes of an answer that names a contact: the reader itself, or another node."""
_READY = 12
"""Percent of views in which the node's own claim is ready, and may be committed to."""


class Contact(NamedTuple):
    """One contact as a rule reads it."""

    port: Port
    answer: int | None
    """The index of its plain answer, `YOU`, `ANOTHER`, or None if it stated nothing."""
    numbers: Mapping[str, int]
    named: bool
    """Whether the node's own answer names this contact."""


class NodeFacts(NamedTuple):
    """One view as a rule reads it."""

    own: Mapping[str, int]
    standing: int | None
    """The index of its plain answer so far, `ANOTHER` for a named contact, None at first."""
    contacts: Sequence[Contact]
    proposal: Choice
    k: int

    def counted(self, answer: int) -> int:
        """Return how many contacts stated the given answer."""
        return sum(contact.answer == answer for contact in self.contacts)

    def named(self) -> Contact | None:
        """Return the contact that the node's own answer names."""
        return next((contact for contact in self.contacts if contact.named), None)


class Problem(NamedTuple):
    """One problem: its facts, its local rule, and the check of all answers."""

    name: str
    plain: tuple[int, int]
    """Fewest and most plain actions."""
    points: bool
    """Whether an answer may name a contact."""
    private: Sequence[str]
    """Numbers that only the node itself sees."""
    public: Sequence[str]
    """Numbers that the node sees and states to its contacts."""
    setup: Callable[[Draw, Graph], list[dict[str, int]]]
    rule: Callable[[NodeFacts], Choice]
    check: Callable[[Episode], bool]
    k: tuple[int, int] = (0, 0)
    degree: int = 1
    """Fewest contacts of a node."""
    turns: int = 0
    """Turns of every node; 0 if all nodes act in every update."""
    move: Callable[[Episode], None] | None = None
    """Applies side effects of the answers after an update."""
    measure: Callable[[NodeFacts], Mapping[str, int]] | None = None
    """Computes public numbers from a node's own view."""


class Task(NamedTuple):
    """A problem with randomly drawn words."""

    problem: Problem
    contract: Contract
    plain: Sequence[str]
    """The plain actions in the contract's order."""
    verb: str
    """The verb of answers that name a contact, if the problem has them."""
    keys: Mapping[str, str]
    """The keys of `answer`, `named` and every number."""
    unstated: str
    """The text shown as the answer of a node that has none yet."""
    seen_as: Mapping[int, str]
    """Words for `YOU` and `ANOTHER`."""
    further: Sequence[str]
    """Keys of distractor facts, which have no meaning."""
    k: int


class Statement(NamedTuple):
    """The last deposit of a node: its answer, its public numbers, and the round."""

    answer: Answer
    numbers: Mapping[str, int]
    round: int


class Episode:
    """One problem on one graph."""

    def __init__(self, draw: Draw, task: Task, graph: Graph, rounds: int) -> None:
        self.task, self.graph, self.rounds = task, graph, rounds
        self.numbers = task.problem.setup(draw, graph)
        self.standing: list[Answer | None] = [None] * len(graph)
        self.start = [dict(numbers) for numbers in self.numbers]
        self._salt, self._round = draw.bits(), 0
        self._order = draw.some(range(len(graph)), len(graph))
        self._said: dict[int, Statement] = {}
        self._proposals = [self._propose(draw, len(contacts)) for contacts in graph]

    def _propose(self, draw: Draw, contacts: int) -> str:
        """Draw a random legal answer."""
        task = self.task
        if task.problem.points and (not task.plain or draw.chance(70)):
            return f"{task.verb}:h{draw.below(contacts)}"
        return draw.choice(task.plain)

    def view(self, node: int) -> View:
        """Return the view of a node; its own claim is z0, its contacts are h0, h1 and so on."""
        task, problem = self.task, self.task.problem
        draw = Draw(self._salt, "view", node, self._round)
        numbers = self.numbers[node]
        if "turn" in problem.private:
            numbers["turn"] = int(self.active() == node)
        if "step" in problem.private:
            numbers["step"] = min(self._round, 3)
        observation: dict[str, Json] = {task.keys["answer"]: self._own_answer(node)}
        ports, rows, traces = self._contacts(node, draw)
        late = self.rounds - 1 - self._round
        ready = ("z0",) if draw.chance(_READY) else ()
        held = Commitment("z0", MAX_BIN) if ready and draw.chance(50) else None
        private = Private(
            observation, (Evidence("z0", MAX_BIN, MAX_BIN, 0),), ready, None, ports, rows
        )
        view = View(
            task.contract, private, Proposal(self._proposals[node], None, "z0"),
            tuple(draw.some(traces, MAX_TRACES)), held, min(MAX_BIN, late),
        )  # fmt: skip
        if problem.measure is not None:
            numbers |= problem.measure(read(task, view))
        observation |= {task.keys[n]: numbers[n] for n in (*problem.private, *problem.public)}
        return view

    def active(self) -> int | None:
        """Return the node whose turn it is, or None if it is no node's turn."""
        turn, rest = divmod(self._round, TURN_EVERY)
        return self._order[turn % len(self.graph)] if rest == TURN_EVERY - 1 else None

    def step(self, decisions: Sequence[Decision]) -> None:
        """Apply the answers and deposits of all nodes."""
        plain = self.task.plain
        for node, decision in enumerate(decisions):
            verb, handle = action_argument(decision.task_action)
            if verb == WAIT:
                continue
            answer: Answer = (
                plain.index(verb) if handle is None else (self.graph[node][int(handle[1:])],)
            )
            self.standing[node] = answer
            if decision.deposits:
                public = {name: self.numbers[node][name] for name in self.task.problem.public}
                self._said[node] = Statement(answer, public, self._round)
        if self.task.problem.move is not None:
            self.task.problem.move(self)
        self._round += 1

    def play(self) -> bool:
        """Let the rule play to the end; return whether all answers pass the check."""
        for _ in range(self.rounds):
            self.step([decide(self.task, self.view(node)) for node in range(len(self.graph))])
        return self.task.problem.check(self)

    def _own_answer(self, node: int) -> str:
        standing = self.standing[node]
        if standing is None:
            return self.task.unstated
        return self._worded(standing, None)

    def _worded(self, answer: Answer, reader: int | None) -> str:
        """Return an answer as text for a reader; a named contact is the reader or another node."""
        if isinstance(answer, int):
            return self.task.plain[answer]
        return self.task.seen_as[YOU if answer[0] == reader else ANOTHER]

    def _contacts(
        self, node: int, draw: Draw
    ) -> tuple[tuple[Port, ...], tuple[ClaimRow, ...], list[Trace]]:
        """Return the contacts, the known claims, and the traces of deposits."""
        task = self.task
        standing = self.standing[node]
        ports, rows, traces = [], [ClaimRow("z0", self._further(draw))], []
        for place, contact in enumerate(self.graph[node]):
            facts = self._further(draw)
            if task.problem.points and standing is not None:
                facts[task.keys["named"]] = int(standing == (contact,))
            if contact in self._said:
                said = self._said[contact]
                facts[task.keys["answer"]] = self._worded(said.answer, node)
                facts |= {task.keys[name]: value for name, value in said.numbers.items()}
                age = min(self._round - said.round - 1, MAX_TTL - 1)
                rows.append(ClaimRow(f"z{place + 1}", self._further(draw)))
                traces.append(
                    Trace(f"h{place}", f"z{place + 1}", max(0, MAX_BIN - age),
                          max(0, MAX_BIN - age // 2), 0, MAX_TTL - age)
                )  # fmt: skip
            ports.append(Port(f"h{place}", draw.between(0, MAX_LOT), dict(sorted(facts.items()))))
        return tuple(ports), tuple(rows), traces

    def _further(self, draw: Draw) -> dict[str, Fact]:
        return {key: draw.between(0, MAX_BIN) for key in self.task.further}


def read(task: Task, view: View) -> NodeFacts:
    """Return the facts of a view, read through the keys of its task."""
    names = {key: name for name, key in task.keys.items()}
    places: dict[str, int] = {a: i for i, a in enumerate(task.plain)}
    places |= {word: place for place, word in task.seen_as.items()}

    def numbers(facts: Mapping[str, Json]) -> dict[str, int]:
        return {names[k]: v for k, v in facts.items() if k in names and isinstance(v, int)}

    def answer(facts: Mapping[str, Json]) -> int | None:
        return places.get(str(facts.get(task.keys["answer"])))

    contacts = []
    for port in view.private.channels:
        found = numbers(port.facts)
        named = found.pop("named", 0) == 1
        contacts.append(Contact(port, answer(port.facts), found, named))
    seen = view.private.observation
    verb, handle = action_argument(view.proposal.action)
    by_handle = {contact.port.channel: contact.port for contact in contacts}
    proposal = places.get(verb) if handle is None else by_handle[handle]
    return NodeFacts(numbers(seen), answer(seen), contacts, proposal, task.k)


def decide(task: Task, view: View) -> Decision:
    """Return the teacher's decision: the rule's answer, stated while there is time to read it.

    A node that waits deposits nothing. If its own claim is ready, it commits to it once.
    """
    choice = task.problem.rule(read(task, view))
    if choice is None:
        return Decision(WAIT, None, (), None)
    answer = f"{task.verb}:{choice.channel}" if isinstance(choice, Port) else task.plain[choice]
    (own,) = view.private.evidence
    deposits = (moves.fresh(own, BROADCAST),) if view.budget else ()
    ready = own.claim in view.private.ready and view.commitment is None
    return Decision(answer, None, deposits, Commitment(own.claim, MAX_BIN) if ready else None)


def by_lot(contacts: Sequence[Contact], first: Callable[[Contact], int]) -> Port | None:
    """Return the contact with the smallest number, ties broken by lot; None if still tied."""
    found = moves.distinguished(contacts, lambda c: (-first(c),), lambda c: moves.port_key(c.port))
    return None if found is None else found.port


def draw_graph(draw: Draw, degree: int) -> Graph:
    """Draw a small connected graph: a tree and further edges, with a minimum degree."""
    n = draw.between(5, 9)
    contacts: list[list[int]] = [[] for _ in range(n)]

    def link(one: int, two: int) -> None:
        if one != two and two not in contacts[one]:
            contacts[one].append(two)
            contacts[two].append(one)

    for node in range(1, n):
        link(node, draw.below(node))
    for _ in range(draw.between(0, n)):
        link(draw.below(n), draw.below(n))
    while any(len(some) < degree for some in contacts):
        short = min(range(n), key=lambda node: len(contacts[node]))
        link(short, draw.below(n))
    return contacts


def rounds_for(problem: Problem, graph: Graph) -> int:
    """Return a number of updates that is enough for a problem to converge on a graph."""
    n = len(graph)
    return TURN_EVERY * n * problem.turns + 2 if problem.turns else n + 3


def draw_keys(draw: Draw, count: int) -> list[str]:
    """Draw `count` different keys, either all common words or all of any spelling."""
    common, keys = draw.chance(50), dict[str, None]()
    while len(keys) < count:
        keys[words.key(draw, common=common)] = None
    return list(keys)
