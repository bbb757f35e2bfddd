"""Frames, the task side of a view, and scenes, which fill a frame with social content.

A frame (contract, private content, proposal, facts) is either cut from a native view of a training
task, or made up with random task and action vocabularies, so that a law learns to read the list it
receives. No frame comes from a transfer task. Two shapes exist, as in the two training substrates:
`spatial` (native actions, directions, readiness required) and `ports` (an answering action,
coverage, port facts). Situations put ports, claims, evidence, traces and a commitment into a scene,
which draws names and row orders last, so that they carry no information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from waggle.core import keys, orbit
from waggle.core.schema import (
    CHANNEL_ARGUMENT,
    DIRECTIONS,
    MAX_BIN,
    MAX_LOT,
    MAX_TRACES,
    MAX_TTL,
    WAIT,
    ClaimRow,
    Commitment,
    Contract,
    Evidence,
    Fact,
    Json,
    Port,
    Private,
    Proposal,
    Trace,
    View,
    action_argument,
    plain_actions,
)
from waggle.corpus.views import words
from waggle.corpus.views.rng import Draw

Shape: TypeAlias = Literal["spatial", "ports"]

_TEXTS = words.TEXTS["frames"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Frame(NamedTuple):
    """The task content of a view."""

    contract: Contract
    observation: Mapping[str, Json]
    action: str
    """A legal private proposal that is neither a wait nor the answer."""
    response: str | None
    """The text of a private answer, if the contract has an answering action."""
    provisional: bool
    """Whether commitments may be provisional (coverage is shown)."""
    pointed: bool
    """Whether evidence and traces carry directions."""
    ports: Sequence[Mapping[str, Fact]]
    """Samples of per-port facts."""
    claims: Sequence[Mapping[str, Fact]]
    """Samples of per-claim facts; empty where the task shows none."""


def native_frame(view: View, draw: Draw) -> Frame | None:
    """Cut the frame out of a native view; None if waiting is the only plain action."""
    contract = view.contract
    plain = [a for a in plain_actions(contract) if a != contract.response]
    action = view.proposal.action
    _, argument = action_argument(action)
    if action == WAIT or action == contract.response or argument is not None:
        if not plain:
            return None
        action = draw.choice(plain)
    response = view.proposal.response
    if contract.response is not None and response is None:
        response = str(draw.below(1000))
    directions = [e.direction for e in view.private.evidence]
    directions += [t.direction for t in view.traces]
    return Frame(
        contract,
        view.private.observation,
        action,
        response if contract.response is not None else None,
        view.private.coverage is not None,
        any(directions) if directions else contract.response is None,
        [port.facts for port in view.private.channels] or [{}],
        [row.facts for row in view.private.claims],
    )


def word(draw: Draw) -> str:
    """Make up a word of syllables or of any letters, so that every spelling occurs."""
    if draw.chance(40):
        return "".join(draw.choice(_LETTERS) for _ in range(draw.between(2, 7)))
    return "".join(draw.choice(_TEXTS["syllables"]) for _ in range(draw.between(2, 3)))


def _key(draw: Draw) -> str:
    """Make up a key; words that are forbidden as keys are drawn again."""
    while keys.forbidden(made := word(draw)):
        pass
    return made


def _actions(draw: Draw, shape: Shape) -> tuple[str, ...]:
    """Make up a list of legal actions: words, numbered ones, sometimes one that takes a port."""
    style = draw.choice((str.upper, str.upper, str.upper, str.lower, str.capitalize))
    names = dict.fromkeys(style(word(draw)) for _ in range(draw.between(1, 7)))
    actions = [name for name in names if name != WAIT]
    if draw.chance(40):
        verb, join = style(word(draw)), draw.choice(("_", "_", " "))
        actions += [f"{verb}{join}{i}" for i in range(1, draw.between(3, 8))]
    if shape == "spatial" and draw.chance(20):
        actions.append(f"{word(draw).upper()}:{CHANNEL_ARGUMENT}")
    place = draw.below(len(actions) + 1)
    return (*actions[:place], WAIT, *actions[place:])


def _wild_actions(draw: Draw) -> tuple[str, ...]:
    """Make up a list of legal actions in unrestricted spelling."""
    actions = words.actions(draw, draw.between(1, 9))
    place = len(actions) if draw.chance(50) else draw.below(len(actions) + 1)
    return (*actions[:place], WAIT, *actions[place:])


def _observation(draw: Draw) -> dict[str, Json]:
    """Make up private content: numbers, words, small lists, small tables."""
    made: dict[str, Json] = {}
    for key in draw.some(_TEXTS["keys"], draw.between(1, 4)):
        kind = draw.below(4)
        if kind == 0:
            made[key] = draw.below(50)
        elif kind == 1:
            made[key] = word(draw)
        elif kind == 2:
            made[key] = [draw.below(100) for _ in range(draw.between(1, 8))]
        else:
            made[key] = {_key(draw): draw.below(10) for _ in range(draw.between(1, 3))}
    return made


def _facts(draw: Draw, names: Sequence[str]) -> dict[str, Fact]:
    return {name: draw.between(0, 4) for name in names}


def made_up_contract(draw: Draw, shape: Shape, *, wild: bool = False) -> Contract:
    """Make up a contract of one shape; a wild one has words of any spelling and any goal."""
    actions = _wild_actions(draw) if wild else _actions(draw, shape)
    answer = None
    if shape == "ports" or draw.chance(10):
        answer = draw.choice(words.actions(draw, 1)) if wild else word(draw).upper()
        if answer not in actions:
            place = draw.below(len(actions) + 1) if wild else len(actions)
            actions = (*actions[:place], answer, *actions[place:])
    goal = (
        words.goal(draw)
        if wild
        else draw.choice(_TEXTS["goals"]).format(a=word(draw), b=word(draw))
    )
    deposits = 1 if draw.chance(75) else draw.between(2, 4)
    task = words.task(draw) if wild else f"{word(draw)}/{word(draw)}"
    return Contract(task, goal, actions, deposits, draw.chance(15), answer)


def made_up_frame(draw: Draw, shape: Shape, contract: Contract | None = None) -> Frame:
    """Make up a frame of one shape, with a made-up contract if none is given."""
    contract = contract or made_up_contract(draw, shape)
    answer = contract.response
    plain = [a for a in plain_actions(contract) if a != answer]
    port_names = draw.some(_TEXTS["port_facts"], draw.between(0, 3))
    claim_names = draw.some(_TEXTS["claim_facts"], draw.between(1, 2)) if draw.chance(40) else []
    return Frame(
        contract,
        _observation(draw),
        draw.choice(plain) if plain else WAIT,
        None if answer is None else _answer(draw),
        shape == "ports",
        shape == "spatial",
        [_facts(draw, port_names) for _ in range(6)],
        [_facts(draw, claim_names) for _ in range(6)] if claim_names else [],
    )


def _answer(draw: Draw) -> str:
    kind = draw.below(3)
    if kind == 0:
        return str(draw.below(100_000))
    if kind == 1:
        return word(draw)
    return "[" + ",".join(str(draw.below(90)) for _ in range(draw.between(1, 6))) + "]"


class Scene:
    """One view under construction; claims are z1, z2 and so on, handles h0, h1 and so on."""

    def __init__(self, frame: Frame, draw: Draw, ports: int) -> None:
        self.frame = frame
        self.draw = draw
        # Some scenes have few distinct lots: ties are part of the curriculum.
        top = 3 if draw.chance(12) else MAX_LOT
        self.ports = [
            Port(f"h{i}", draw.between(0, top), draw.choice(frame.ports)) for i in range(ports)
        ]
        self.evidence: list[Evidence] = []
        self.traces: list[Trace] = []
        self.ready: list[str] = []
        self.coverage: int | None = 0 if frame.provisional else None
        self.commitment: Commitment | None = None
        self.proposed: str | None = None
        self.proposal = frame.action
        self.response: str | None = None
        self.budget = draw.between(1, MAX_BIN)
        self._claims = 0
        self._point = draw.choice(DIRECTIONS[:8])

    def claim(self) -> str:
        """Add a claim and return its name."""
        self._claims += 1
        return f"z{self._claims}"

    def direction(self, *, stray: int = 20) -> str | None:
        """Return the scene's direction, or a random one with a probability of `stray` percent."""
        if not self.frame.pointed:
            return None
        return self.draw.choice(DIRECTIONS) if self.draw.chance(stray) else self._point

    def own(self, claim: str, novelty: int, support: int, conflict: int = 0) -> None:
        """Add private evidence."""
        direction = self.direction() if conflict == 0 else None
        self.evidence.append(Evidence(claim, novelty, support, conflict, direction))

    def heard(
        self, claim: str, port: int, novelty: int, support: int, conflict: int, ttl: int
    ) -> None:
        """Add an incoming trace: at most one per port and claim, and twelve per view."""
        channel = self.ports[port % len(self.ports)].channel
        known = any(t.channel == channel and t.claim == claim for t in self.traces)
        if known or len(self.traces) == MAX_TRACES:
            return
        direction = self.direction()
        self.traces.append(Trace(channel, claim, novelty, support, conflict, ttl, direction))

    def port(self) -> int:
        """Draw a port."""
        return self.draw.below(len(self.ports))

    def distract(self, most: int, ttl: int = MAX_TTL, support: int = 1, novelty: int = 1) -> None:
        """Add up to `most` weak traces, each on a new claim."""
        draw = self.draw
        for _ in range(draw.between(0, most) if self.ports else 0):
            claim, port = self.claim(), self.port()
            bins = draw.between(0, novelty), draw.between(0, support), 0, draw.between(1, ttl)
            self.heard(claim, port, *bins)

    def echo(self, most: int) -> None:
        """Repeat traces on random ports, slightly weaker or shorter; dying traces stay dying."""
        for _ in range(most if self.traces else 0):
            trace = self.draw.choice(self.traces)
            port = self.port()
            novelty = max(0, trace.novelty - self.draw.below(2))
            support = max(0, trace.support - self.draw.below(2))
            ttl = max(min(2, trace.ttl), trace.ttl - self.draw.below(3))
            self.heard(trace.claim, port, novelty, support, trace.conflict, ttl)

    def fade(self, percent: int) -> None:
        """Set the TTL of about `percent` percent of traces to 1 or 2, whatever their strength."""
        self.traces = [
            msgspec.structs.replace(trace, ttl=self.draw.choice((1, 1, 2)))
            if self.draw.chance(percent)
            else trace
            for trace in self.traces
        ]

    def propose(self, claim: str, *, answer: bool) -> None:
        """Propose a claim; with `answer`, also the answering action if the contract has one."""
        self.proposed = claim
        if self.frame.contract.response is None:
            return
        self.response = self.frame.response
        if answer:
            self.proposal = self.frame.contract.response

    def view(self) -> View:
        """Return the view with fresh names and row orders."""
        facts = self.frame.claims
        rows = tuple(
            ClaimRow(f"z{i + 1}", self.draw.choice(facts))
            for i in range(self._claims)
            if facts and self.draw.chance(80)
        )
        private = Private(
            self.frame.observation,
            tuple(self.evidence),
            tuple(self.ready),
            self.coverage,
            tuple(self.ports),
            rows,
        )
        response = None if self.proposal == WAIT else self.response
        plain = View(
            self.frame.contract,
            private,
            Proposal(self.proposal, response, self.proposed),
            tuple(self.traces),
            self.commitment,
            self.budget,
        )
        return orbit.sample(plain, self.draw.bits()).view(plain)
