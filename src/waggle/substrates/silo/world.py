"""One Silo episode: shards spread over a hidden contact graph by the frames a law chooses to send.

Realises "Silo under Waggle" and architecture section 4: R rounds of communication, then one
answering update. A frame carries one trace, the sender's proposal intent and one snapshot of the
sender's knowledge (`payload`). That snapshot, with the origins that the trace's claim rests on, is
the only content sent that no law wrote; views show it as offer, coverage, readiness and conflict.
The law's choices matter: the deposit's channel selects the node that receives the snapshot, a node
without a deposit shares nothing, a commitment binds the answer until verified conflict reopens it,
and only a response counts.
Knowledge, snapshots and bases are bitmasks of 2n bits, as `proposals` defines them: the low n bits
are the origins whose first shard version is in the set, the high n bits (`mask >> n`) those whose
second version is.
Invariant: a view depends only on the node's own shard, sends and receipts; every draw is keyed by
a body's key.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any, NamedTuple

import msgspec

from waggle.core.protocols import Act, Case, Local, Sensed, Shock, Suggestion, Write
from waggle.core.schema import MAX_BIN, WAIT, Contract, Evidence, Fact, Json
from waggle.core.seeds import derive
from waggle.core.worker import Work
from waggle.core.world import WorldBase
from waggle.substrates.silo.cases import DEGREE, episode_graph, independent_case
from waggle.substrates.silo.proposals import Proposer, show_answer

GATHER = "GATHER"
ANSWER = "ANSWER"
ROUNDS = 9
SHOCK_ROUNDS = 36
"""The horizon with late counterevidence, which is injected once enough nodes are committed."""
SHOCK_LEFT = 8
"""Rounds left after late counterevidence, unless the case sets its rounds. They are enough for a
law that reopens and replaces at once; laws that take each admissible action only eventually need
twice as many (development seeds, lab/LOG.md)."""
SHOCK_FROM = 6
"""First round in which counterevidence may be injected: once a quarter of the nodes is committed,
and in any case after two thirds of the horizon."""
SHOCK_MOST = 12
"""Maximum number of renewed shards, so that all mixtures of versions can be enumerated."""
OFFER_BINS = 15
"""The largest offer bin; 0 means that there is nothing the neighbour might lack."""
NEVER = 9
"""The recency of a port that was never used; used ports count 1 to 8."""

_RULES = (
    " The input is spread over the swarm in pieces. A deposit on a channel sends along all you "
    "hold. GATHER goes on; ANSWER binds the response as your answer, which may be revised until "
    "the end. A commitment binds your answer to its claim until it is reopened."
)


class Frame(NamedTuple):
    """The payload that travels with a trace."""

    snapshot: int
    basis: int
    """The knowledge that the trace's claim rests on."""
    intent: str


class Report(NamedTuple):
    """A shard's report on its nodes."""

    known: list[int]
    bound: list[str | None]
    traffic: tuple[int, int, int]
    """Emissions, deliveries and bytes."""
    answers: dict[str, Any]
    """Claim -> the answer that it shows, for claims that are new since the last report."""


class PortMemory:
    """A node's memory of one port, which holds only its own sends and receipts."""

    __slots__ = ("begun", "heard", "intent", "sent", "shared")

    def __init__(self) -> None:
        self.shared = 0
        """Knowledge that was sent to the neighbour or received from it."""
        self.sent = -1
        self.heard = -1
        """`sent` and `heard`: the rounds of the last frame sent and received; -1 for never."""
        self.intent = "NONE"
        """The proposal intent of the last frame received."""
        self.begun = -1, 0
        """The shard that earlier frames carried a part of, and the bytes of that part."""

    def facts(self, known: int, round: int) -> dict[str, Fact]:
        """Return the facts that a view shows about this port."""
        fresh = (known & ~self.shared).bit_count()
        return {
            "offer": -(-OFFER_BINS * fresh // known.bit_count()),
            "sent": _recency(self.sent, round),
            "heard": _recency(self.heard, round),
            "intent": self.intent,
        }

    def pack(self, arrivals: list[int], sizes: list[int], cap: int) -> int:
        """Select the next shards for a capped frame: those the neighbour may lack, oldest first.

        A shard larger than the space left is sent in pieces; it counts once the last one is sent.
        """
        room, packed = cap, 0
        for index in arrivals:
            if (self.shared >> index) & 1:
                continue
            begun, carried = self.begun
            rest = sizes[index] - (carried if begun == index else 0)
            if rest > room:
                self.begun = index, sizes[index] - rest + room
                break
            room -= rest
            packed |= 1 << index
        return packed


def _recency(last: int, round: int) -> int:
    return NEVER if last < 0 else min(round - last, NEVER - 1)


class SiloWorld(WorldBase):
    """Knowledge, port memories and bound answers of all nodes."""

    snapshots = True

    def __init__(self, case: Case, cap: int | None, keys: Sequence[int] | None = None) -> None:
        n = case.n
        self.n = n
        self.keys = tuple(range(n)) if keys is None else tuple(keys)
        self._case = case
        self._cap = cap
        self._silo = independent_case(case.task, n, case.seed)
        self._task = self._silo.task
        self._proposer = Proposer(self._silo)
        slots = {key: slot for slot, key in enumerate(self.keys)}
        graph = episode_graph(case.task, n, case.seed)
        self._ports = [tuple(slots[body] for body in graph[key]) for key in self.keys]
        self.rounds = (case.rounds or (SHOCK_ROUNDS if case.shock else ROUNDS)) + 1
        self._end = self.rounds
        self.contract = Contract(
            f"silo/{case.task}", self._task.asks + _RULES, (WAIT, GATHER, ANSWER),
            deposits=1 if cap is None else DEGREE, response=ANSWER,
        )  # fmt: skip
        self._round = 0
        self._hired: list[tuple[str | None, int]] | None = None
        self._known = [1 << key for key in self.keys]
        self._before = list(self._known)
        self._memory = [{j: PortMemory() for j in own} for own in self._ports]
        self._bases: list[dict[str, int]] = [{} for _ in self.keys]
        """By node: claim -> the knowledge that it rests on."""
        self._bound: list[str | None] = [None] * n
        self._arrivals = [[key] for key in self.keys]
        self._emitted = [-1] * n
        """The round in which each node sent its last frame."""
        self._emissions = 0
        self._delivered = 0
        self._volume = 0

    @cached_property
    def _sizes(self) -> list[int]:
        """The size in bytes of every shard, listed once per version."""
        carried = map(self._task.carried, self._silo.shards)
        return [len(msgspec.json.encode(shard)) for shard in carried] * 2

    def neighbours(self, node: int) -> Sequence[int]:
        """Return the three contacts of a node."""
        return self._ports[node]

    def _claim(self, node: int) -> str | None:
        """Return the claim that a node can make now; None before its worker's first answer."""
        return self._private(node)[0]

    def _private(self, node: int) -> tuple[str | None, int]:
        """Return the claim of a node's private proposal, and the knowledge that it rests on."""
        if self._hired is not None:
            return self._hired[node]
        return self._proposer.claim(self._known[node], self.keys[node]), self._known[node]

    def staff(self) -> None:
        """Take proposals from private workers; a node gathers until its worker first answers."""
        self._hired = [(None, 0)] * self.n

    def work(self, node: int, local: Local) -> Work:
        """Return the worker request for the answer that follows from a node's pieces."""
        return self._proposer.work(self._known[node], self.keys[node], self.contract)

    def adopt(self, node: int, answer: Json) -> bool:
        """Adopt a worker's answer as the node's claim, based on the node's current knowledge."""
        claim = self._proposer.adopt(answer)
        if claim is None or self._hired is None:
            return False
        self._hired[node] = claim, self._known[node]
        return True

    def _intent(self, node: int) -> str:
        """Return the action that private evidence suggests: answer if it suffices or time is up."""
        able = self._is_last() or self._ready(node)
        return ANSWER if able and self._claim(node) is not None else GATHER

    def _is_last(self) -> bool:
        return self._round >= self._end - 1

    def done(self) -> bool:
        """Return whether the rounds left after late counterevidence are over."""
        return self._round >= self._end

    def _ready(self, node: int) -> bool:
        return self._proposer.complete(self._known[node], self.keys[node])

    def sense(self, node: int, local: Local) -> Sensed:
        """Show the node its proposal, readiness, coverage and the memory of its ports."""
        known, claim = self._known[node], self._claim(node)
        ready = self._ready(node)
        coverage = MAX_BIN if ready else self._proposer.coverage(known, self.keys[node])
        own = () if claim is None else (Evidence(claim, MAX_BIN, coverage, 0),)
        bound = self._bound[node]
        held, before = known.bit_count(), self._before[node].bit_count()
        return Sensed(
            observation={
                "answer": "own" if self._task.segmented else "common",
                "gained": -(-MAX_BIN * (held - before) // held),  # learned in the last round
                "answered": "no" if bound is None else "so" if bound == claim else "otherwise",
            },
            proposal=Suggestion(self._intent(node), response=claim, claim=claim),
            evidence=(*own, *self._refutations(node, claim, local)),
            ready=(claim,) if ready and claim is not None else (),
            coverage=coverage,
            ports={j: port.facts(known, self._round) for j, port in self._memory[node].items()},
        )

    def _refutations(self, node: int, own: str | None, local: Local) -> list[Evidence]:
        """Return verified conflict: held or received claims that the knowledge contradicts."""
        held = local.commitment
        refuted: set[str] = set()
        if self._known[node] >> self.n:  # else no claim can be outdated
            heard = {trace.claim for trace in local.traces if not trace.conflict}
            refuted = {z for z in heard if z != own and self._outdated(node, z)}
        if held is not None and self._superseded(node, held, own):
            refuted.add(held)
        return [Evidence(z, MAX_BIN, 0, MAX_BIN) for z in sorted(refuted)]

    def _outdated(self, node: int, claim: str) -> bool:
        """Return whether a claim rests on a first version alone while the node knows the second."""
        basis = self._bases[node].get(claim, 0)
        known_second, basis_second = self._known[node] >> self.n, basis >> self.n
        return bool(known_second & basis & ~basis_second)

    def _superseded(self, node: int, claim: str, own: str | None) -> bool:
        """Return whether the node knows all that a claim rests on, or a later version of it.

        The node's `own` claim, which would always qualify, is not superseded.
        """
        basis = self._bases[node].get(claim)
        if claim == own or basis is None:
            return False
        knows_all = not (basis & ~self._known[node])
        return knows_all or self._outdated(node, claim)

    def withhold(self, write: Write) -> str | None:
        """Withhold writes of the answering update, and second frames of a port and round."""
        if self._is_last():
            return "horizon"  # it could not arrive in time
        port = self._memory[write.sender].get(write.receiver)
        return "port" if port is not None and port.sent == self._round else None

    def fingerprint(self, write: Write) -> Hashable:
        """Return what makes two frames equal: the channel, the claim, its sign and the snapshot.

        Capped frames that carry different pieces of the backlog are different.
        """
        port = self._memory[write.sender][write.receiver]
        piece = None if self._cap is None else (port.shared, port.begun)
        return (write.receiver, write.claim, self._known[write.sender], piece, write.conflict > 0)

    def payload(self, write: Write) -> Frame:
        """Return the frame with the snapshot to send, and record it as sent."""
        node = write.sender
        known, port = self._known[node], self._memory[node][write.receiver]
        snapshot = known
        if self._cap is not None:
            snapshot = port.pack(self._arrivals[node], self._sizes, self._cap)
        port.shared |= snapshot
        port.sent = self._round
        self._emissions += self._emitted[node] != self._round
        self._emitted[node] = self._round
        own, basis = self._private(node)
        if write.claim != own:
            basis = self._bases[node].get(write.claim, 0)
        return Frame(snapshot, basis, self._intent(node))

    def _weight(self, write: Write, frame: Frame) -> int:
        """Return the size of a frame in bytes: its shards, the claim as text and the intent."""
        bits = bin(frame.snapshot)[:1:-1]  # the binary digits from the lowest bit up
        shards = sum(size for size, bit in zip(self._sizes, bits, strict=False) if bit == "1")
        return shards + len(write.claim) + len(frame.intent)

    def receive(self, write: Write, payload: object) -> Write | None:
        """Add the snapshot to the receiver's knowledge, which does not age as traces do."""
        assert isinstance(payload, Frame)
        node = write.receiver
        port = self._memory[node][write.sender]
        port.shared |= payload.snapshot
        port.heard = self._round - 1
        port.intent = payload.intent
        self._learn(node, payload.snapshot)
        self._bases[node][write.claim] = payload.basis
        self._delivered += 1
        self._volume += self._weight(write, payload)
        return write

    def contradicts(self, write: Write, payload: object) -> bool:
        """Return whether a frame's snapshot exceeds its claim's basis and yields another claim."""
        assert isinstance(payload, Frame)
        if write.conflict or self._hired is not None:
            return False
        basis, snapshot = payload.basis, payload.snapshot
        exceeds = not (basis & ~snapshot) and basis != snapshot
        return exceeds and write.claim != self._proposer.claim(snapshot, self.keys[write.sender])

    def _learn(self, node: int, snapshot: int) -> None:
        fresh = snapshot & ~self._known[node]
        self._known[node] |= snapshot
        if self._cap is not None:
            self._arrivals[node] += [i for i, bit in enumerate(bin(fresh)[:1:-1]) if bit == "1"]

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Bind the answers of this update and close the round."""
        for node in self.active():
            claim, basis = self._private(node)
            if claim is not None:
                self._bases[node][claim] = basis
        native = {node: self._bind(node, act) for node, act in acts.items()}
        self._before = list(self._known)
        self._round += 1
        return native

    def _bind(self, node: int, act: Act) -> str:
        """Bind an answer, unless the node is committed to another claim.

        The action decides whether to answer, the intent selects the answer: FIELD the held claim,
        PRIVATE the private proposal, no intent the response.
        """
        if WAIT in (act.action, act.intent):
            return WAIT
        text, held = act.response, act.local.commitment
        if act.intent == "PRIVATE":
            text = self._claim(node)
        elif act.intent == "FIELD" and held is not None:
            text = held
        if act.action != ANSWER or text is None:
            return GATHER
        if held is not None and text != held:
            return "BOUND"
        self._bound[node] = text
        return ANSWER

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Give a tenth of the nodes a new version of their own shard.

        The shock refutes the old answers and every held claim that rests on a replaced version; it
        supports the complete answers that use at least one new version.
        """
        early = 3 * round < 2 * (self.rounds - 1)
        if round < SHOCK_FROM or (early and 4 * len(committed) < self.n):
            return None
        lots = {i: derive(self._case.seed, "silo shock", key) for i, key in enumerate(self.keys)}
        most = min(max(1, self.n // 10), SHOCK_MOST)
        chosen = sorted(lots, key=lots.__getitem__)[:most]
        origins = [self.keys[node] for node in chosen]
        old = {show_answer(self._proposer.gold(key)) for key in self.keys}
        replaced = sum(1 << origin for origin in origins)
        old |= {z for node, z in committed.items() if self._bases[node].get(z, 0) & replaced}
        for node in chosen:
            self._renew(node)
        if self._case.rounds is None:
            self._end = min(self.rounds, round + SHOCK_LEFT + 1)
        new = self._proposer.renewed(origins)
        names = tuple(sorted(old - new)), tuple(sorted(new))
        return Shock(round, *names, tuple(chosen), "renewed shards")

    def _renew(self, node: int) -> None:
        key = self.keys[node]
        renew = self._task.renew
        assert renew is not None
        rng = Random(f"silo/renew/{self._task.id}/{self.n}/{self._case.seed}/{key}")
        shard = renew(rng, self._silo.shards[key], self._silo.setting)
        self._proposer.renew(key, shard)
        self._learn(node, 1 << (self.n + key))

    def report(self) -> Report:
        """Return every node's knowledge and answer, the traffic, and the answers of new claims."""
        nodes = self.active()
        return Report(
            [self._known[node] for node in nodes],
            [self._bound[node] for node in nodes],
            (self._emissions, self._delivered, self._volume),
            self._proposer.new_answers(),
        )

    def absorb(self, parts: Sequence[tuple[Sequence[int], Report]]) -> None:
        """Merge the reports of all shards."""
        for nodes, report in parts:
            for node, known, bound in zip(nodes, report.known, report.bound, strict=True):
                self._known[node], self._bound[node] = known, bound
            self._proposer.learn_answers(report.answers)
        totals = [
            sum(counts) for counts in zip(*(report.traffic for _, report in parts), strict=True)
        ]
        self._emissions, self._delivered, self._volume = totals

    def score(self) -> Mapping[str, float]:
        """Return mean S (the headline), strict S, both kinds of P, reach and traffic."""
        texts = [text for _, text in sorted(zip(self.keys, self._bound, strict=True))]
        score = self._proposer.score(texts)
        whole = (1 << self.n) - 1  # every origin, in either version
        held = [((known | (known >> self.n)) & whole).bit_count() for known in self._known]
        return {
            "score": score.success,
            "strict": score.strict,
            "partial": score.partial,
            "matched": score.matched,
            "coverage": sum(held) / self.n**2,
            "complete": held.count(self.n) / self.n,
            "emissions": self._emissions / self.n,
            "deliveries": self._delivered / self.n,
            "bytes": self._volume,
        }

    share_of = "score"
    """Name of the score that is the mean of all nodes' shares."""

    def share(self, node: int) -> float:
        """Return 1 for a node whose answer is right, else 0."""
        return float(self._proposer.is_right(self._bound[node], self.keys[node]))

    def render(self) -> str:
        """Return one line with the coverage, completeness and correctness so far."""
        now = self.score()
        return (
            f"round {self._round}: coverage {now['coverage']:.0%}, complete {now['complete']:.0%}, "
            f"right {now['score']:.0%}"
        )
