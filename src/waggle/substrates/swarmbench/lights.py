"""Synchronization: gather, agree, flip together; a claim is a phase (`phase:on`, `phase:off`).

Private rule: walk up and left until others or walls stop you, so that everybody meets; then take
the majority's light; after some rounds of agreement start the next flip, and join a flip that a
neighbour starts. No clock is shared: only rounds of agreement in sight are counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from waggle.core.protocols import Local
from waggle.core.schema import Json
from waggle.substrates.swarmbench.behaviour import Plan
from waggle.substrates.swarmbench.compass import STEP, at, found
from waggle.substrates.swarmbench.plain import Plain
from waggle.substrates.swarmbench.tasks import Synchronization

PATIENCE = 3
"""Rounds of agreement in sight after which a flip is started."""
HOLD = 2
"""Rounds for which an own flip is kept whatever others show."""


class Lights(Plain):
    """The behaviour of Synchronization."""

    def light(self, node: int) -> bool:
        """Whether the node's light is on."""
        rules = self.scene.world.rules
        assert isinstance(rules, Synchronization)
        return rules.lights[self.scene.keys[node]]

    def observation(self, node: int) -> Mapping[str, Json]:
        """The node's own light."""
        return {"light": "on" if self.light(node) else "off"}

    def look(self, node: int) -> Plan:
        """Gather first, then agree."""
        memory, window = self.scene.memories[node], self.scene.windows[node]
        for move in ("UP", "LEFT"):
            if at(window, STEP[move]) == ".":
                return Plan(move, False)
        on, lit, dark = self.light(node), len(found(window, "A")), len(found(window, "a"))
        same, different = (lit, dark) if on else (dark, lit)
        agreed = memory.streak
        memory.streak = agreed + 1 if different == 0 and same else 0
        if memory.heading is not None and memory.clock - memory.heading[0] <= HOLD:
            return Plan("STAY", False)
        joins = agreed > 1 and different > 0
        starts = memory.streak > PATIENCE
        outvoted = different > same + 1 or (different == same + 1 and not on)
        if joins or starts or outvoted:
            memory.heading = (memory.clock, 0)
            memory.streak = 0
            return Plan("SWITCH", False)
        return Plan("STAY", False)

    def shown(self, node: int) -> str | None:
        """The phase on which everyone in sight agrees."""
        window = self.scene.windows[node]
        lit, dark = len(found(window, "A")), len(found(window, "a"))
        on = self.light(node)
        if lit + dark == 0 or (dark if on else lit):
            return None
        return "phase:on" if on else "phase:off"

    def follow(self, node: int, local: Local) -> str | None:
        """Switch if the light is not in the followed phase."""
        claim = self.followed(local)
        if claim is None:
            return None
        return "SWITCH" if (claim == "phase:on") != self.light(node) else "STAY"
