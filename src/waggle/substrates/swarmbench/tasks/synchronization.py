"""Synchronization: gather, agree, flip together; the one claim is that there is a beat.

Private rule: walk up and left until others or walls stop you, so that everybody meets; then take
the majority's light; after some rounds of agreement start the next flip, and join a flip that a
neighbour starts. Flips so joined run through a long crowd as waves that never end in unison. A
message carries when a flip was, as its age (`payload`); an agent that hears of an older flip than
its own keeps to that beat (`follow`), so the oldest one takes over. No clock is shared. Invariant:
what was heard is kept apart from own flips, so the private proposal never depends on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from waggle.core.protocols import Local, Write
from waggle.core.schema import MAX_BIN, Evidence, Fact, Json
from waggle.substrates.swarmbench.agent.compass import at, find
from waggle.substrates.swarmbench.scene import Scene
from waggle.substrates.swarmbench.sim.config import ACTION_NAMES, STEP
from waggle.substrates.swarmbench.sim.rules import Synchronization
from waggle.substrates.swarmbench.tasks.base import Behaviour, Plan

PATIENCE = 3
"""Rounds of agreement in sight after which a flip is started."""
HOLD = 2
"""Rounds for which an own flip is kept whatever others show."""
BEAT = "beat"
"""The claim that there is a beat to keep to."""


class Beat(NamedTuple):
    """A flip: when it was, and whether it turned the lights on. The older is the smaller."""

    round: int
    on: bool

    def lit(self, round: int) -> bool:
        """Whether lights that keep to the beat are on after a round."""
        return self.on != bool((round - self.round) // (PATIENCE + 1) % 2)


class SynchronizationBehaviour(Behaviour):
    """One beat for all lights; the oldest known flip defines it."""

    goal = (
        "All lights on, then all lights off, in turn; A is a light that is on, a one that is "
        "off. SWITCH flips your own."
    )
    actions = (*ACTION_NAMES, "SWITCH")

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        n = len(scene.keys)
        self.own: list[Beat | None] = [None] * n
        """The first flip every node made by its private rule."""
        self.heard: list[Beat | None] = [None] * n
        """The oldest flip every node heard of."""
        self._agreed = [0] * n
        """Rounds in a row in which everyone in sight agreed, by node."""
        self._flipped = [-HOLD - 1] * n
        """The round of the last flip by the private rule, by node."""

    def light(self, node: int) -> bool:
        """Whether the node's light is on."""
        rules = self.scene.world.rules
        assert isinstance(rules, Synchronization)
        return rules.lights[self.scene.keys[node]]

    def observation(self, node: int) -> Mapping[str, Json]:
        """Return the node's own light."""
        return {"light": "on" if self.light(node) else "off"}

    def look(self, node: int) -> Plan:
        """Gather first, then agree."""
        step = self._gather(node)
        if step is not None:
            return Plan(step, False)
        clock, window = self.scene.memories[node].clock, self.scene.windows[node]
        on, lit, dark = self.light(node), len(find(window, "A")), len(find(window, "a"))
        same, different = (lit, dark) if on else (dark, lit)
        agreed = self._agreed[node]
        self._agreed[node] = agreed + 1 if different == 0 and same else 0
        if clock - self._flipped[node] <= HOLD:
            return Plan("STAY", False)
        joins = agreed > 1 and different > 0
        starts = self._agreed[node] > PATIENCE
        outvoted = different > same + 1 or (different == same + 1 and not on)
        if not (joins or starts or outvoted):
            return Plan("STAY", False)
        self._flipped[node] = clock
        self._agreed[node] = 0
        if starts and self.own[node] is None:
            self.own[node] = Beat(clock, not on)
        return Plan("SWITCH", False)

    def _gather(self, node: int) -> str | None:
        """Return the step that leads to the others, or None where there is no room for one."""
        window = self.scene.windows[node]
        return next((move for move in ("UP", "LEFT") if at(window, STEP[move]) == "."), None)

    def known(self, node: int) -> Beat | None:
        """Return the older of the own beat and the one heard of."""
        return min((b for b in (self.own[node], self.heard[node]) if b is not None), default=None)

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Return the own beat; nothing can contradict that there is one."""
        return () if self.own[node] is None else (Evidence(BEAT, MAX_BIN, MAX_BIN, 0),)

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """Return whether the beat to keep to is the own one or was reported."""
        beat = self.known(node)
        if beat is None:
            return {}
        return {BEAT: {"kind": BEAT, "source": "told" if beat == self.heard[node] else "seen"}}

    def content(self, write: Write) -> Hashable:
        """Return the beat: an older one is news."""
        return self.known(write.sender)

    def payload(self, write: Write) -> object:
        """Return the oldest flip the writer knows of, by its age."""
        beat, clock = self.known(write.sender), self.scene.memories[write.sender].clock
        return None if beat is None else Beat(beat.round - clock, beat.on)

    def receive(self, write: Write, payload: object) -> Write:
        """Keep the oldest flip heard of; a message is one round under way."""
        if isinstance(payload, Beat):
            clock = self.scene.memories[write.receiver].clock - 1
            beat, heard = Beat(payload.round + clock, payload.on), self.heard[write.receiver]
            self.heard[write.receiver] = beat if heard is None else min(heard, beat)
        return write

    def follow(self, node: int, local: Local) -> str | None:
        """Gather, then switch if the light is off the beat."""
        beat = self.known(node)
        if beat is None or self._gather(node) is not None:
            return None
        lit = beat.lit(self.scene.memories[node].clock)
        return "SWITCH" if lit != self.light(node) else "STAY"
