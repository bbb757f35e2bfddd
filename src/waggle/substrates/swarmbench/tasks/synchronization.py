"""Synchronization: gather, agree, flip together; the one claim is that lights differ.

Private rule: walk up and left until blocked by others or walls, so that all agents meet; then take
the majority's light; after some rounds of agreement start the next flip, and join a flip that a
neighbour starts. Such flips run through a long crowd as waves that never end in unison. An agent
that sees a light unlike its own may report it; the law chooses when to switch. A write carries no
payload.
"""

from __future__ import annotations

from collections.abc import Mapping

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
"""Rounds for which an agent keeps its flip, whatever others show."""
APART = "apart"
"""The claim that some agent shows a different light."""


class SynchronizationBehaviour(Behaviour):
    """One claim, that lights differ; a different light in sight is evidence for it."""

    goal = (
        "All lights on, then all lights off, in turn; A is a light that is on, a one that is "
        "off. SWITCH flips your own."
    )
    actions = (*ACTION_NAMES, "SWITCH")
    places = False
    refresh: int | None = 1

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        n = len(scene.keys)
        self._shown = [self.light(node) for node in range(n)]
        """The light of every node a round ago."""
        self._agreed = [0] * n
        """Consecutive rounds in which all agents in sight agreed, by node."""
        self._flipped = [-HOLD - 1] * n
        """The round of the last flip, by node."""

    def light(self, node: int) -> bool:
        """Return whether the node's light is on."""
        rules = self.scene.world.rules
        assert isinstance(rules, Synchronization)
        return rules.lights[self.scene.keys[node]]

    def standing(self, node: int) -> float:
        """Return the accumulated net switching of all lights; a full swing counts 1."""
        rules = self.scene.world.rules
        assert isinstance(rules, Synchronization)
        return rules.swung

    def observation(self, node: int) -> Mapping[str, Json]:
        """Return the node's own light."""
        return {"light": "on" if self.light(node) else "off"}

    def look(self, node: int) -> Plan:
        """Plan to gather first, then to agree."""
        clock, on = self.scene.memories[node].clock, self.light(node)
        if on != self._shown[node]:
            self._shown[node], self._flipped[node], self._agreed[node] = on, clock - 1, 0
        step = self._gather(node)
        if step is not None:
            return Plan(step, False)
        window = self.scene.windows[node]
        lit, dark = len(find(window, "A")), len(find(window, "a"))
        same, different = (lit, dark) if on else (dark, lit)
        agreed = self._agreed[node]
        self._agreed[node] = agreed + 1 if different == 0 and same else 0
        if clock - self._flipped[node] <= HOLD:
            return Plan("STAY", False)
        joins = agreed > 1 and different > 0
        starts = self._agreed[node] > PATIENCE
        outvoted = different > same + 1 or (different == same + 1 and not on)
        return Plan("SWITCH" if joins or starts or outvoted else "STAY", False)

    def _gather(self, node: int) -> str | None:
        """Return the step towards the others, or None if there is no room for one."""
        window = self.scene.windows[node]
        return next((move for move in ("UP", "LEFT") if at(window, STEP[move]) == "."), None)

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Return evidence that lights differ, if one in sight differs from the node's own."""
        other = "a" if self.light(node) else "A"
        apart = any(other in row for row in self.scene.windows[node])
        return (Evidence(APART, MAX_BIN, MAX_BIN, 0),) if apart else ()

    def content(self, write: Write) -> int:
        """Return the lifetime, so that a write that lasts longer counts as new."""
        return write.ttl

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """Return the facts of the only claim, which has no place."""
        return {APART: {"kind": APART}}
