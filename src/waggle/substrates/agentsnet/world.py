"""AgentsNet-RP: one episode on one graph with opaque contacts and private priorities.

Realises the paper's App. "Frozen Transfer to Randomized-Anonymous AgentsNet": R sending updates,
then one answering update whose action is the official answer. A claim stands for a priority and
travels only in a law's deposit, with the answer of its holder (`payload`). The adapter shows the
order of the priorities a node holds and the answers it received; it never forwards a priority. What
a decision answers is decided in one place, `_compile`. Invariants: without deposits every memory
stays empty, so no fact about others reaches a view; all draws are named by the seed, the instance
and a node's key, so all methods meet the same draws and a relabelled swarm is the same swarm.
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
    round_budget,
)

COMMON_CLAIM = "here"
"""The one claim of an episode without priorities: it tells nobody apart."""

_MOST_CLAIMS = 12
"""Claim rows shown, smallest priorities first, beside the own claim and the held one."""
_MOST_AGE = 9
"""Ages in updates are shown up to this."""
_K = TypeVar("_K")


class Answer(NamedTuple):
    """A task action in world words: the verb, and the partner node for a match."""

    action: str
    target: int | None = None


class Statement(NamedTuple):
    """What the holder of a claim said: which update, how surely, and the answer it acted on."""

    holder: int
    round: int
    sure: int
    answer: Answer | None


@dataclass
class Memory:
    """What one node has heard and said, in world words."""

    claims: dict[str, Statement] = field(default_factory=dict)
    """Newest statement by claim, own claim excluded."""
    contacts: dict[int, Statement] = field(default_factory=dict)
    """Newest statement that a contact made about itself."""
    spoken: dict[int, Statement] = field(default_factory=dict)
    """Newest statement about itself that this node made to each contact."""
    shared: dict[str, set[int]] = field(default_factory=dict)
    """Claim -> contacts that know it: it was sent to them, or received from them."""

    def hear(self, claim: str, sender: int, statement: Statement) -> None:
        """Take in one delivered statement; an older one never replaces a newer one."""
        self.shared.setdefault(claim, set()).add(sender)
        _keep(self.claims, claim, statement)
        if statement.holder == sender:
            _keep(self.contacts, sender, statement)

    def say(self, claim: str, receiver: int, statement: Statement, own: bool) -> None:
        """Note one delivered statement of this node."""
        self.shared.setdefault(claim, set()).add(receiver)
        if own:
            _keep(self.spoken, receiver, statement)


def _keep(table: dict[_K, Statement], key: _K, statement: Statement) -> None:
    known = table.get(key)
    if known is None or known.round <= statement.round:
        table[key] = statement


class AgentsNetWorld(WorldBase):
    """Graph, priorities, standing answers, and what every node received."""

    readiness: Literal["gate", "native"] = "gate"
    refresh: int | None = 4

    def __init__(
        self, case: Case, graph: AgentGraph, priority: bool, keys: Sequence[int] | None = None
    ) -> None:
        self.graph, self.task, self.priority = graph, case.task, priority
        self.n, self.keys = graph.n, tuple(range(graph.n) if keys is None else keys)
        sending = round_budget(case.task, graph)
        self.rounds = sending + 1 if case.rounds is None else case.rounds
        self.contract = contract(case.task, graph.max_degree + 1, priority)
        place = {body: node for node, body in enumerate(self.keys)}
        self._adjacent = [tuple(place[b] for b in graph.adjacency[body]) for body in self.keys]
        self._draws = seeds.derive(case.seed, "agentsnet", graph.family, graph.n, graph.index)
        self._ranks = episode_priorities(self._draws, self.keys)
        self._claims = [f"priority {u}" if priority else COMMON_CLAIM for u in self._ranks]
        self._holder = {claim: node for node, claim in enumerate(self._claims)}
        self._proposals = [self._draw_answer(node) for node in range(self.n)]
        self._round = 0
        self._standing: list[Answer | None] = [None] * self.n
        self._said: list[dict[int, Answer | None]] = [{} for _ in range(self.n)]
        self._memory = [Memory() for _ in range(self.n)]

    def neighbours(self, node: int) -> Sequence[int]:
        """Fixed contacts of a node."""
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
            claims=self._claim_rows(node, local, order) if self.priority else {},
        )

    def withhold(self, write: Write) -> str | None:
        """Answering is not sending: the last update carries no message."""
        return "answering" if self._round >= self.rounds - 1 else None

    def fingerprint(self, write: Write) -> Hashable:
        """A relay repeats itself; the own claim does not, since it states this update's answer."""
        turn = self._round if self._speaks_for_itself(write) else -1
        return (write.receiver, write.claim, turn)

    def payload(self, write: Write) -> Statement | None:
        """Send along what the claim's holder stated; the own answer is filled in on arrival."""
        if self._speaks_for_itself(write):
            return Statement(write.sender, self._round, write.support, None)
        return self._memory[write.sender].claims.get(write.claim)

    def receive(self, write: Write, payload: object) -> Write:
        """Remember a delivered statement on both ends."""
        if isinstance(payload, Statement):
            own = payload.holder == write.sender
            if own:
                said = self._said[write.sender].get(payload.round, self._standing[write.sender])
                payload = payload._replace(answer=said)
            if self.priority and payload.holder == write.receiver:
                self._memory[write.receiver].shared.setdefault(write.claim, set()).add(write.sender)
            else:
                self._memory[write.receiver].hear(write.claim, write.sender, payload)
            self._memory[write.sender].say(write.claim, write.receiver, payload, own)
        return write

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Take every admitted action as the node's answer so far; a wait keeps the old one."""
        native = {}
        for node, act in acts.items():
            answer = self._compile(node, act)
            if answer is not None:
                self._standing[node] = answer
            self._said[node][self._round] = self._standing[node]
            native[node] = self._official(node) or WAIT
        self._round += 1
        return native

    def score(self) -> Mapping[str, float]:
        """Score the answers so far officially; the headline is strict (solved or not)."""
        soft = evaluate(self.task, self.graph, self.official_answers())
        strict, answered = float(soft == 1.0), self.n - self._standing.count(None)
        return {"score": strict, "strict": strict, "soft": soft, "answered": answered / self.n}

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
        """Draw the private proposal: uniform over the legal answers, blind to N."""
        bits = seeds.derive(self._draws, "proposal", self.keys[node])
        if self.task == "matching":
            options = [Answer(MATCH, j) for j in self._adjacent[node]] + [Answer(ALONE)]
            return options[bits % len(options)]
        actions = [action for action in self.contract.actions if action != WAIT]
        return Answer(actions[bits % len(actions)])

    def _order(self, node: int) -> dict[str, int]:
        """Rank the priorities a node holds, its own among them: 0 is the smallest."""
        if not self.priority:
            return {}
        held = {self._claims[node], *self._memory[node].claims}
        ranked = sorted(held, key=lambda claim: self._ranks[self._holder[claim]])
        return {claim: rank for rank, claim in enumerate(ranked)}

    def _observation(self, node: int, order: Mapping[str, int]) -> dict[str, Json]:
        """Show the node its own answer so far and its own priority with its place in the order."""
        standing = self._standing[node]
        shown: dict[str, Json] = {"answer": standing.action if standing else "none yet"}
        if self.priority:
            shown["priority"] = str(self._ranks[node])
            shown["order"] = order[self._claims[node]]
        return shown

    def _port(self, node: int, contact: int, order: Mapping[str, int]) -> dict[str, Fact]:
        """Show what a contact stated about itself, and when it last received the own answer."""
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

    def _claim_rows(
        self, node: int, local: Local, order: Mapping[str, int]
    ) -> dict[str, dict[str, Fact]]:
        """Show the claims a node holds: order, whether it is the own one, who knows it already."""
        own, memory = self._claims[node], self._memory[node]
        shown = [c for c in order if order[c] < _MOST_CLAIMS or c in (own, local.commitment)]
        rows: dict[str, dict[str, Fact]] = {}
        for claim in shown:
            knows = memory.shared.get(claim, set())
            facts: dict[str, Fact] = {"order": order[claim], "own": int(claim == own)}
            facts["untold"] = len(self._adjacent[node]) - len(knows)
            if claim in memory.claims and self.task in GLOBAL_TASKS:
                facts["answer"] = self._answer_seen(node, memory.claims[claim].answer)
            rows[claim] = facts
        return rows

    def _answer_seen(self, node: int, answer: Answer | None) -> str:
        """Word an answer for one observer; a partner is the observer or someone else."""
        if answer is None:
            return "none yet"
        if answer.action != MATCH:
            return answer.action
        return "you" if answer.target == node else "another"

    def _speaks_for_itself(self, write: Write) -> bool:
        return write.claim == self._claims[write.sender]

    def _compile(self, node: int, act: Act) -> Answer | None:
        """Map an admitted decision to an answer: the commitment's where it has one, else its act.

        Following a claim in the two global tasks means its holder leads, or its value is taken.
        """
        if act.action == WAIT or act.intent == WAIT:
            return None
        followed = act.local.commitment
        if followed is not None and act.intent != "PRIVATE" and self.priority:
            if self.task == "leader_election":
                return Answer("Yes" if followed == self._claims[node] else "No")
            stated = self._memory[node].claims.get(followed)
            if self.task == "consensus" and stated is not None and stated.answer is not None:
                return stated.answer
        return Answer(act.action, act.target)

    def _official(self, node: int) -> str | None:
        """Translate a standing answer into the official string, or None where there is none."""
        standing = self._standing[node]
        if standing is None:
            return None
        if self.task == "matching":
            partner = standing.target
            return "None" if partner is None else self.graph.names[self.keys[partner]]
        legal = group_names(self.graph.max_degree + 1) if self.task == "coloring" else None
        return standing.action if legal is None or standing.action in legal else None


def episode_priorities(root: int, keys: Sequence[int]) -> list[int]:
    """Return one unique 64-bit priority per node, named by its key; collisions are resampled."""
    drawn: dict[int, int] = {}
    for key in sorted(keys):
        attempt = 0
        while (u := seeds.derive(root, "priority", key, attempt)) in drawn.values():
            attempt += 1
        drawn[key] = u
    return [drawn[key] for key in keys]
