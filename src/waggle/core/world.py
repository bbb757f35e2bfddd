"""Defaults for the optional hooks of a World, so that a substrate writes only what it needs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

from waggle.core.protocols import Shock, Write


class WorldBase:
    """A world whose writes carry no payload, always arrive and are never withheld."""

    n: int
    keys: Sequence[int]
    readiness: Literal["gate", "native"] = "native"
    handle_life: Literal["episode", "contact"] = "episode"
    refresh: int | None = None

    def active(self) -> Sequence[int]:
        """Everyone takes part."""
        return range(self.n)

    def withhold(self, write: Write) -> str | None:
        """Silence nothing."""
        return None

    def fingerprint(self, write: Write) -> Hashable:
        """Two writes of one claim to one receiver, with the same sign, are the same."""
        return (write.receiver, write.claim, write.conflict > 0)

    def payload(self, write: Write) -> object:
        """Send nothing along."""
        return None

    def receive(self, write: Write, payload: object) -> Write | None:
        """Let every message arrive unchanged."""
        return write

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject nothing."""
        return None

    def done(self) -> bool:
        """Run to the horizon."""
        return False

    def render(self) -> str:
        """Draw nothing."""
        return ""
