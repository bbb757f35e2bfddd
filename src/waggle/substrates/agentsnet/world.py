"""AgentsNet-RP: one episode on one graph with opaque contacts and private priorities.

Realises the paper's App. "Frozen Transfer to Randomized-Anonymous AgentsNet": R sending updates,
then one answering update whose action is the official answer. A claim stands for a priority and is
sent only in a law's deposit. A deposit of a node's own claim carries the answer of the same
decision; a relay carries only what the writer's view showed of that claim, in the same bins. The
adapter shows the order of the priorities a node holds and the answers it received; it never
forwards a priority and never answers: the answer is the law's action. Invariants: without deposits
every memory stays empty, so no fact about other nodes reaches a view; all draws are keyed by the
seed, the instance and a node's key, so all methods get the same draws and relabelling the nodes
does not change the episode.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from waggle.core import seeds
from waggle.core.protocols import Act, Case, Local, Sensed, Suggestion, Write
from waggle.core.schema import MAX_BIN, WAIT, Evidence, Fact, Json
from waggle.core.world import WorldBase
from waggle.substrates.agentsnet.graphs import AgentGraph
from waggle.substrates.agentsnet.tasks import (
    ALONE,
    GLOBAL_TASKS,
    MATCH,
    contract,
    evaluate,
    group_names,
    node_share,
    round_budget,
)

COMMON_CLAIM = "here"
"""The single claim of an episode without priorities; it identifies no node."""

_MOST_CLAIMS = 12
"""Claim rows shown, smallest priorities first, besides the own claim and the held one."""
_MOST_AGE = 9
"""Largest age shown, in updates."""
_SILENT = "none yet"
"""The answer shown for a node that has not answered."""
_K = TypeVar("_K")


class Answer(NamedTuple):
    """A task action in world words: the verb, and the partner node for a match."""

    action: str
    target: int | None = None


class Statement(NamedTuple):
    """A node's statement about itself: the update, the support and the answer it acted on."""

    round: int
    sure: int
    answer: Answer | None


class Report(NamedTuple):
    """The known answer of a claim's holder, and its update; None if unknown."""

    round: int
    answer: str | None


@dataclass
class Memory:
    """The messages that one node has received and sent, in world words."""

    claims: dict[str, Report] = field(default_factory=dict)
    """Newest report by claim, own claim excluded."""
    contacts: dict[int, Statement] = field(default_factory=dict)
    """Newest statement that each contact made about itself."""
    spoken: dict[int, Statement] = field(default_factory=dict)
    """Newest statement about itself that this node sent to each contact."""
    shared: dict[str, set[int]] = field(default_factory=dict)
    """Claim -> contacts that it was sent to or received from."""

    def share(self, claim: str, contact: int) -> None:
        """Record that a claim was sent to a contact or received from it."""
        self.shared.setdefault(claim, set()).add(contact)


_Said = TypeVar("_Said", Statement, Report)


def _keep(table: dict[_K, _Said], key: _K, said: _Said) -> None:
    """Store a statement or report, unless the table has a newer one."""
    known = table.get(key)
    if known is None or known.round <= said.round:
        table[key] = said


class AgentsNetWorld(WorldBase):
    """The graph, priorities, current answers and received messages of all nodes."""

    readiness: Literal["gate", "native"] = "gate"
    refresh: int | None = 4

    def __init__(
        self, case: Case, graph: AgentGraph, priority: bool, keys: Sequence[int] | None = None,
        goal: str | None = None,
    ) -> None:  # fmt: skip
        self.graph, self.task, self.priority = graph, case.task, priority
        self.n, self.keys = graph.n, tuple(range(graph.n) if keys is None else keys)
        sending = round_budget(case.task, graph)
        self.rounds = sending + 1 if case.rounds is None else case.rounds
        self.contract = contract(case.task, graph.max_degree + 1, priority, goal)
        place = {body: node for node, body in enumerate(self.keys)}
        self._adjacent = [tuple(place[b] for b in graph.adjacency[body]) for body in self.keys]
        self._draws = seeds.derive(case.seed, "agentsnet", graph.family, graph.n, graph.index)
        self._ranks = episode_priorities(self._draws, self.keys)
        self._body_ranks = [self._ranks[place[body]] for body in range(self.n)]
        self._claims = [f"priority {u}" if priority else COMMON_CLAIM for u in self._ranks]
        self._holder = {claim: node for node, claim in enumerate(self._claims)}
        self._proposals = [self._draw_answer(node) for node in range(self.n)]
        self._round = 0
        self._standing: list[Answer | None] = [None] * self.n
        self._said: list[list[Answer | None]] = []
        """The answers acted on in each update so far, by node."""
        self._memory = [Memory() for _ in range(self.n)]
        self._held: list[str | None] = [None] * self.n
        """The commitment of every node after its last update; its view shows that claim."""

    def neighbours(self, node: int) -> Sequence[int]:
        """Return the fixed contacts of a node."""
        return self._adjacent[node]

    def sense(self, node: int, local: Local) -> Sensed:
        """Show the own priority, the order of those held, and what contacts have stated."""
        proposal = self._proposals[node]
        own = self._claims[node]
        order = self._order(node)
        return Sensed(
            observation=self._observation(node, order),
            proposal=Suggestion(proposal.action, proposal.target, claim=own),
            evidence=(Evidence(own, MAX_BIN, MAX_BIN, 0),),
            ports={j: self._port(node, j, order) for j in self._adjacent[node]},
            claims={
                claim: self._claim_row(node, claim, order)
                for claim in order
                if self._shows(node, claim, local.commitment, order)
            },
        )

    def withhold(self, write: Write) -> str | None:
        """Withhold every write of the last update, which is for answering only."""
        return "answering" if self._round >= self.rounds - 1 else None

    def fingerprint(self, write: Write) -> Hashable:
        """Return a write's identity; an own claim differs per update, since it states an answer."""
        turn = self._round if self._speaks_for_itself(write) else -1
        return (write.receiver, write.claim, turn)

    def payload(self, write: Write) -> Statement | Report:
        """Return the own answer, or what the view showed of another claim; record it as sent.

        The own answer is that of the decision that made the write, so it is filled in on arrival.
        A sender records what it sent, not whether it arrived.
        """
        memory = self._memory[write.sender]
        memory.share(write.claim, write.receiver)
        if self._speaks_for_itself(write):
            statement = Statement(self._round, write.support, None)
            memory.spoken[write.receiver] = statement
            return statement
        node, claim = write.sender, write.claim
        order = self._order(node)
        shown = self._shows(node, claim, self._held[node], order)
        row = self._claim_row(node, claim, order) if shown else {}
        age, answer = row.get("age"), row.get("answer")
        if isinstance(age, int) and isinstance(answer, str):
            return Report(self._round - age, answer)
        return Report(-1, None)

    def depart(self, write: Write, payload: object) -> object:
        """Fill in the sender's answer before a statement leaves for another shard."""
        if isinstance(payload, Statement):
            return payload._replace(answer=self._answer_of(write.sender, payload.round))
        return payload

    def report(self) -> list[Answer | None]:
        """Return the current answers of the nodes played here."""
        return [self._standing[node] for node in self.active()]

    def absorb(self, parts: Sequence[tuple[Sequence[int], list[Answer | None]]]) -> None:
        """Store the answers reported by all shards."""
        for nodes, answers in parts:
            for node, answer in zip(nodes, answers, strict=True):
                self._standing[node] = answer

    def receive(self, write: Write, payload: object) -> Write:
        """Store a delivered statement or report, except a report on the receiver's own claim."""
        memory = self._memory[write.receiver]
        memory.share(write.claim, write.sender)
        if isinstance(payload, Statement):
            answer = payload.answer or self._answer_of(write.sender, payload.round)
            _keep(memory.contacts, write.sender, payload._replace(answer=answer))
            payload = Report(payload.round, answer.action if answer else None)
        if isinstance(payload, Report) and write.claim != self._claims[write.receiver]:
            _keep(memory.claims, write.claim, payload)
        return write

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Record every admitted action as the node's current answer; a wait keeps the old one."""
        native = {}
        for node, act in acts.items():
            self._held[node] = act.local.commitment
            if WAIT not in (act.action, act.intent):
                self._standing[node] = Answer(act.action, act.target)
            native[node] = self._official(node) or WAIT
        self._said.append(list(self._standing))
        self._round += 1
        return native

    def score(self) -> Mapping[str, float]:
        """Return the official scores of the current answers; the headline is strict (solved)."""
        soft = evaluate(self.task, self.graph, self.official_answers())
        strict, answered = float(soft == 1.0), self.n - self._standing.count(None)
        return {"score": strict, "strict": strict, "soft": soft, "answered": answered / self.n}

    share_of = "soft"
    """Name of the score that is the mean of all nodes' shares."""

    def share(self, node: int) -> float | None:
        """Return a node's part of the soft score, or None in a task whose score has no parts."""
        return node_share(self.task, self.graph, self.official_answers(), self.keys[node])

    def standing(self, node: int) -> float | None:
        """Return a node's progress, or None without priorities.

        This is its share with ties of blame broken by priority; in LeaderElection, it rewards
        holding the smallest priority and answering accordingly.
        """
        if not self.priority:
            return None
        if self.task == "leader_election":
            return self._led_by_the_smallest(node)
        answers = self.official_answers()
        return node_share(self.task, self.graph, answers, self.keys[node], self._body_ranks)

    def official_answers(self) -> list[str | None]:
        """Return the official answers so far, in the order of the graph's nodes."""
        answers: list[str | None] = [None] * self.n
        for node, body in enumerate(self.keys):
            answers[body] = self._official(node)
        return answers

    def render(self) -> str:
        """Draw one line: the task, the instance and every node's answer."""
        shown = " ".join(answer or "-" for answer in self.official_answers())
        return f"{self.task} on {self.graph.id} ({self.graph.provenance}): {shown}"

    def _draw_answer(self, node: int) -> Answer:
        """Draw the private proposal: uniform over the legal answers, independent of N."""
        bits = seeds.derive(self._draws, "proposal", self.keys[node])
        if self.task == "matching":
            options = [Answer(MATCH, j) for j in self._adjacent[node]] + [Answer(ALONE)]
            return options[bits % len(options)]
        actions = [action for action in self.contract.actions if action != WAIT]
        return Answer(actions[bits % len(actions)])

    def _led_by_the_smallest(self, node: int) -> float:
        """Return 1 for holding the smallest priority, plus 1 for the right answer.

        The right answer is Yes for the node with that priority and No for all others. The one Yes
        counts as much as half of the swarm; otherwise no leader at all would score nearly full.
        """
        leader = self._ranks.index(min(self._ranks))
        leads = node == leader
        holds = leads or self._claims[leader] in self._memory[node].claims
        right = self._official(node) == ("Yes" if leads else "No")
        return holds + right * (self.n / 2 if leads else 1)

    def _order(self, node: int) -> dict[str, int]:
        """Return the rank of each priority that a node holds, its own included; 0 is smallest."""
        if not self.priority:
            return {}
        held = {self._claims[node], *self._memory[node].claims}
        ranked = sorted(held, key=lambda claim: self._ranks[self._holder[claim]])
        return {claim: rank for rank, claim in enumerate(ranked)}

    def _observation(self, node: int, order: Mapping[str, int]) -> dict[str, Json]:
        """Return the node's current answer and its own priority with its place in the order."""
        standing = self._standing[node]
        shown: dict[str, Json] = {"answer": standing.action if standing else _SILENT}
        if self.priority:
            shown["priority"] = str(self._ranks[node])
            shown["order"] = order[self._claims[node]]
        return shown

    def _port(self, node: int, contact: int, order: Mapping[str, int]) -> dict[str, Fact]:
        """Return a contact's statement about itself, and the age of the own answer sent to it."""
        memory = self._memory[node]
        facts: dict[str, Fact] = {}
        standing = self._standing[node]
        if self.task == "matching" and standing is not None:
            facts["named"] = int(standing.target == contact)
        spoken = memory.spoken.get(contact)
        if spoken is not None:
            facts["told"] = min(self._round - spoken.round, _MOST_AGE)
            facts["vouched"] = spoken.sure
        heard = memory.contacts.get(contact)
        if heard is not None:
            facts["heard"] = min(self._round - heard.round, _MOST_AGE)
            facts["sure"] = heard.sure
            facts["answer"] = self._answer_seen(node, heard.answer)
            if self.priority:
                facts["order"] = order[self._claims[contact]]
        return facts

    def _shows(
        self, node: int, claim: str, committed: str | None, order: Mapping[str, int]
    ) -> bool:
        """Return whether a view has a row for a claim: a small priority, the own or the held."""
        known = claim in order
        return known and (order[claim] < _MOST_CLAIMS or claim in (self._claims[node], committed))

    def _claim_row(self, node: int, claim: str, order: Mapping[str, int]) -> dict[str, Fact]:
        """Return the row of a held claim: order, whether it is the own one, contacts that lack it.

        In the global tasks, also the answer of its holder and the age of that answer in updates.
        """
        memory = self._memory[node]
        knows = memory.shared.get(claim, set())
        facts: dict[str, Fact] = {"order": order[claim], "own": int(claim == self._claims[node])}
        facts["untold"] = len(self._adjacent[node]) - len(knows)
        report = memory.claims.get(claim)
        if report is not None and report.answer is not None and self.task in GLOBAL_TASKS:
            facts["age"] = min(self._round - report.round, _MOST_AGE)
            facts["answer"] = report.answer
        return facts

    def _answer_seen(self, node: int, answer: Answer | None) -> str:
        """Return an answer as shown to one observer; a partner is `you` or `another`."""
        if answer is None:
            return _SILENT
        if answer.action != MATCH:
            return answer.action
        return "you" if answer.target == node else "another"

    def _speaks_for_itself(self, write: Write) -> bool:
        return write.claim == self._claims[write.sender]

    def _answer_of(self, node: int, round: int) -> Answer | None:
        """Return the answer that a node acted on in an update."""
        return self._said[round][node] if round < len(self._said) else self._standing[node]

    def _official(self, node: int) -> str | None:
        """Return a node's current answer as the official string, or None if it has no legal one."""
        standing = self._standing[node]
        if standing is None:
            return None
        if self.task == "matching":
            partner = standing.target
            return "None" if partner is None else self.graph.names[self.keys[partner]]
        legal = group_names(self.graph.max_degree + 1) if self.task == "coloring" else None
        return standing.action if legal is None or standing.action in legal else None


def episode_priorities(root: int, keys: Sequence[int]) -> list[int]:
    """Return one unique 64-bit priority per node, drawn by its key; collisions are resampled."""
    drawn: dict[int, int] = {}
    for key in sorted(keys):
        attempt = 0
        while (u := seeds.derive(root, "priority", key, attempt)) in drawn.values():
            attempt += 1
        drawn[key] = u
    return [drawn[key] for key in keys]
