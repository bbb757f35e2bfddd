"""A scene under construction: frame plus ports, claims, evidence, traces and commitment.

Situations put rows in; `view` closes the scene and names and orders everything afresh by an orbit
element, so that no name or place in a generated view carries information.
"""

from __future__ import annotations

import msgspec

from waggle.core import orbit
from waggle.core.schema import (
    DIRECTIONS,
    MAX_BIN,
    MAX_LOT,
    MAX_TRACES,
    MAX_TTL,
    WAIT,
    ClaimRow,
    Commitment,
    Evidence,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)
from waggle.corpus.views.frames import Frame
from waggle.corpus.views.rng import Draw


class Scene:
    """One view in the making."""

    def __init__(self, frame: Frame, draw: Draw, ports: int) -> None:
        self.frame = frame
        self.draw = draw
        # A few lots are shared on purpose: ties are part of the curriculum.
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
        """Mint a claim."""
        self._claims += 1
        return f"z{self._claims}"

    def direction(self, *, stray: int = 20) -> str | None:
        """Return the scene's direction, or in so many of a hundred draws another one."""
        if not self.frame.pointed:
            return None
        return self.draw.choice(DIRECTIONS) if self.draw.chance(stray) else self._point

    def own(self, claim: str, *, novelty: int, support: int, conflict: int = 0) -> None:
        """Add private evidence."""
        direction = self.direction() if conflict == 0 else None
        self.evidence.append(Evidence(claim, novelty, support, conflict, direction))

    def told(
        self, claim: str, port: int, *, novelty: int, support: int, conflict: int = 0, ttl: int
    ) -> None:
        """Add an incident trace; a port tells a claim once, and a view holds at most twelve."""
        channel = self.ports[port % len(self.ports)].channel
        known = any(t.channel == channel and t.claim == claim for t in self.traces)
        if known or len(self.traces) == MAX_TRACES:
            return
        direction = self.direction()
        self.traces.append(Trace(channel, claim, novelty, support, conflict, ttl, direction))

    def distract(
        self, most: int, *, ttl: int = MAX_TTL, support: int = 1, novelty: int = 1
    ) -> None:
        """Add up to so many weak traces on claims of their own."""
        if not self.ports:
            return
        for _ in range(self.draw.between(0, most)):
            self.told(
                self.claim(),
                self.draw.below(len(self.ports)),
                novelty=self.draw.between(0, novelty),
                support=self.draw.between(0, support),
                ttl=self.draw.between(1, ttl),
            )

    def echo(self, most: int) -> None:
        """Let other ports tell, much alike, what was told already; what dies still dies."""
        for _ in range(most if self.traces else 0):
            heard = self.draw.choice(self.traces)
            self.told(
                heard.claim,
                self.draw.below(len(self.ports)),
                novelty=max(0, heard.novelty - self.draw.below(2)),
                support=max(0, heard.support - self.draw.below(2)),
                conflict=heard.conflict,
                ttl=max(min(2, heard.ttl), heard.ttl - self.draw.below(3)),
            )

    def fade(self, percent: int) -> None:
        """Let so many of a hundred traces be about to die, whatever their strength."""
        self.traces = [
            msgspec.structs.replace(heard, ttl=self.draw.choice((1, 1, 2)))
            if self.draw.chance(percent)
            else heard
            for heard in self.traces
        ]

    def propose(self, claim: str, *, answer: bool) -> None:
        """Let the private proposal name a claim, as an answer where the contract has one."""
        self.proposed = claim
        if self.frame.contract.response is None:
            return
        self.response = self.frame.response
        if answer:
            self.proposal = self.frame.contract.response

    def view(self) -> View:
        """Close the scene under fresh names and orders."""
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
