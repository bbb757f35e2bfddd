"""Agents on a ring each hold a private number, and all should answer the median of all numbers.

    waggle learn median recipes/learn/median.toml --plugin examples/median/median.py

A complete third-party world in one file, written to be learned: it has a score, divides it among
the agents, and has no expert. No agent can answer from its own number alone, so a law must deposit
readings, relay those of others, and answer from the readings it holds. The law `median-rule` below
does that by hand-written rules. It is a baseline for learned laws and is not used as a teacher.

Invariants: a claim stands for a reading; its number travels only with a deposit, as the writer's
view showed it. Random draws depend on keys, so relabelling the nodes gives the same swarm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from waggle import (
    Act,
    Case,
    Contract,
    Decision,
    Decode,
    Evidence,
    Local,
    Request,
    Sensed,
    Suggestion,
    View,
    WorldBase,
    law,
    substrate,
)
from waggle.core.errors import ConfigError
from waggle.core.protocols import Write
from waggle.core.schema import BROADCAST, MAX_BIN, WAIT, Fact, Trace
from waggle.core.seeds import derive
from waggle.core.world import read_options
from waggle.laws import moves

MOST = 4
"""The largest number; the smallest is 0."""
ROUNDS = 5
REACH = 2
"""Contacts of a node on each side of the ring."""
_SILENT = "none yet"
CONTRACT = Contract(
    "median",
    "Every agent has read one number. Answer the median of all numbers. A deposit tells all "
    "contacts the number of its claim; pass on what they have not been told.",
    (*(str(number) for number in range(MOST + 1)), WAIT),
    broadcast=True,
)


def median(numbers: Sequence[int]) -> int:
    """Return the median of the numbers; for an even count, the smaller of the middle two."""
    return sorted(numbers)[(len(numbers) - 1) // 2]


class MedianOptions(BaseModel):
    """Options of median."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    even: bool = True
    """Whether all medians are equally likely, so that no constant answer pays; otherwise numbers
    are drawn independently, and the middle number is the median most often."""


class MedianWorld(WorldBase):
    """One episode: the number each node has read, the readings it has received, and its answer."""

    contract = CONTRACT

    def __init__(self, case: Case, even: bool, keys: Sequence[int]) -> None:
        self.n, self.keys = case.n, tuple(keys)
        self.rounds = ROUNDS if case.rounds is None else case.rounds
        drawn = draw_numbers(case, even)
        self._numbers = [drawn[key] for key in self.keys]
        self._claims = [f"reading {key}" for key in self.keys]
        self._contacts = _ring(case, self.keys)
        self._round = 0
        self._heard: list[dict[str, tuple[int, int]]] = [{} for _ in self.keys]
        """Per node and claim: the number received, and the round in which it arrived."""
        self._shared: list[dict[str, set[int]]] = [{} for _ in self.keys]
        """Per node and claim: the contacts it has sent the number to or received it from."""
        self._answers: list[str | None] = [None] * self.n

    def neighbours(self, node: int) -> Sequence[int]:
        """Return the nearest nodes on either side of the ring."""
        return self._contacts[node]

    def sense(self, node: int, local: Local) -> Sensed:
        """Show the node's own number, and one row for every reading that it holds."""
        own = self._claims[node]
        return Sensed(
            observation={"answer": self._answers[node] or _SILENT},
            proposal=Suggestion(str(self._numbers[node]), claim=own),
            evidence=(Evidence(own, MAX_BIN, MAX_BIN, 0),),
            claims={claim: self._row(node, claim) for claim in (own, *self._heard[node])},
        )

    def _row(self, node: int, claim: str) -> dict[str, Fact]:
        """Return a reading's number, rounds since it arrived, and contacts that may lack it."""
        own = claim == self._claims[node]
        number, heard = (self._numbers[node], 0) if own else self._heard[node][claim]
        told = len(self._shared[node].get(claim, ()))
        return {
            "number": number, "own": int(own), "since": self._round - heard,
            "untold": len(self._contacts[node]) - told,
        }  # fmt: skip

    def payload(self, write: Write) -> int:
        """Return the number that the view shows for the claim; note that the receiver has it."""
        self._shared[write.sender].setdefault(write.claim, set()).add(write.receiver)
        if write.claim == self._claims[write.sender]:
            return self._numbers[write.sender]
        return self._heard[write.sender][write.claim][0]

    def receive(self, write: Write, payload: object) -> Write:
        """Store the number, unless the claim is the receiver's own reading."""
        assert isinstance(payload, int)
        if write.claim != self._claims[write.receiver]:
            self._heard[write.receiver].setdefault(write.claim, (payload, self._round))
            self._shared[write.receiver].setdefault(write.claim, set()).add(write.sender)
        return write

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Take every action as the node's answer; a wait keeps the previous answer."""
        native = {}
        for node, act in acts.items():
            waits = WAIT in (act.action, act.intent)
            native[node] = WAIT if waits else act.action
            if not waits:
                self._answers[node] = act.action
        self._round += 1
        return native

    def share(self, node: int) -> float:
        """Return a node's share of the score: 1 if its answer is the median, else 0."""
        return float(self._answers[node] == str(median(self._numbers)))

    def standing(self, node: int) -> float:
        """Return a node's progress: the share of all readings it holds, plus 1 if it is right."""
        return (1 + len(self._heard[node])) / self.n + self.share(node)

    def score(self) -> Mapping[str, float]:
        """Return the share of nodes that answer the median, and the mean share of readings held."""
        right = sum(self.share(node) for node in range(self.n)) / self.n
        known = sum(1 + len(heard) for heard in self._heard) / self.n**2
        return {"score": right, "known": known}

    def render(self) -> str:
        """Draw the numbers and the answers."""
        answers = " ".join(answer or "-" for answer in self._answers)
        return f"median {median(self._numbers)} of {self._numbers}: {answers}"


def draw_numbers(case: Case, even: bool) -> list[int]:
    """Draw the numbers of all bodies; if `even`, draw the median first and the others around it."""
    draws = [derive(case.seed, "number", body) for body in range(case.n)]
    if not even:
        return [draw % (MOST + 1) for draw in draws]
    middle, half = derive(case.seed, "median") % (MOST + 1), (case.n - 1) // 2
    order = sorted(range(case.n), key=lambda body: derive(case.seed, "rank", body))
    numbers = [middle] * case.n
    for body in order[:half]:
        numbers[body] = draws[body] % max(1, middle)
    for body in order[half + 1 :]:
        numbers[body] = MOST - draws[body] % max(1, MOST - middle)
    return numbers


def _ring(case: Case, keys: Sequence[int]) -> list[list[int]]:
    """Seat the bodies on a ring in random order and return the contacts of every node."""
    seats = sorted(range(case.n), key=lambda body: derive(case.seed, "seat", body))
    seat_of = {body: seat for seat, body in enumerate(seats)}
    node_of = {body: node for node, body in enumerate(keys)}
    steps = [k for k in range(-REACH, REACH + 1) if k]
    return [
        sorted({node_of[seats[(seat_of[body] + k) % case.n]] for k in steps} - {node})
        for node, body in enumerate(keys)
    ]


@substrate("median")
class Median:
    """Agents that agree on the median of their numbers."""

    name: ClassVar[str] = "median"
    tasks: ClassVar[tuple[str, ...]] = ("median",)
    options: ClassVar[type[MedianOptions]] = MedianOptions

    def open(self, case: Case, keys: Sequence[int] | None = None) -> MedianWorld:
        """Draw the world of a case."""
        if not 3 <= case.n <= 32 or case.shock:
            raise ConfigError("median takes 3 to 32 agents, and no shock; use -n 5 to 9")
        even = read_options(MedianOptions, case).even
        return MedianWorld(case, even, range(case.n) if keys is None else keys)


@law("median-rule")
class MedianRule:
    """Deposit the newest reading that contacts lack; answer the median of the known readings."""

    name = "median-rule"

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round."""
        return [Decode(self._decide(request.view)) for request in requests]

    def _decide(self, view: View) -> Decision:
        rows = {row.claim: row.facts for row in view.private.claims}
        answer = median([int(facts["number"]) for facts in rows.values()])
        news = {
            claim: (-int(facts["since"]), int(facts["untold"]))
            for claim, facts in rows.items()
            if facts["untold"]
        }
        return Decision(str(answer), None, self._told(view, news), None)

    def _told(self, view: View, news: Mapping[str, tuple[int, int]]) -> tuple[Trace, ...]:
        own = view.private.evidence[0]
        if own.claim in news:
            return (moves.fresh(own, BROADCAST),)
        heard = [trace for trace in moves.relayable(view) if trace.claim in news]
        ports = moves.port_keys(view)
        newest = moves.distinguished(
            heard, lambda trace: (*news[trace.claim], ports[trace.channel])
        )
        return () if newest is None else (moves.relay(newest, BROADCAST),)
