"""What the tasks without sites share: one claim, and nothing that would refute it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from waggle.core.protocols import Shock, Write
from waggle.core.schema import Fact, Json
from waggle.substrates.swarmbench.scene import Scene


class Plain:
    """A task with one claim: that a landmark or a beat is known."""

    refresh: int | None = 12

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def observation(self, node: int) -> Mapping[str, Json]:
        """Nothing beyond the window."""
        return {}

    def ports(self, node: int) -> Mapping[int, Mapping[str, Fact]]:
        """Nothing about contacts."""
        return {}

    def says(self, write: Write) -> Hashable:
        """A claim says one thing only."""
        return None

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Late counterevidence is defined for Pursuit and Foraging only."""
        return None
