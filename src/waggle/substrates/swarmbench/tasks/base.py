"""What a task adds to the adapter: private plans, evidence, facts, and following the field."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol

from waggle.core.protocols import Local, Shock, Write
from waggle.core.schema import Evidence, Fact, Json


class Plan(NamedTuple):
    """A private movement proposal, and whether it follows a route of the agent's own."""

    move: str
    route: bool


class Behaviour(Protocol):
    """The task-specific half of an episode. `look` alone changes memories."""

    refresh: int | None
    """Rounds after which a repeated write is a refresh; None: evidence is told once."""

    def look(self, node: int) -> Plan:
        """Take the present window into private memory and plan the private move."""
        ...

    def observation(self, node: int) -> Mapping[str, Json]:
        """Return the task's own part of the observation."""
        ...

    def evidence(self, node: int, local: Local) -> tuple[Evidence, ...]:
        """Return what the node itself can vouch for or contradict."""
        ...

    def facts(self, node: int, local: Local) -> Mapping[str, Mapping[str, Fact]]:
        """Return bounded facts of the claims known to the node."""
        ...

    def ports(self, node: int) -> Mapping[int, Mapping[str, Fact]]:
        """Return bounded facts of the node's contacts."""
        ...

    def says(self, write: Write) -> Hashable:
        """Return what tells two writes of one claim to one receiver apart, or None."""
        ...

    def payload(self, write: Write) -> object:
        """Return what travels with a write."""
        ...

    def receive(self, write: Write, payload: object) -> Write:
        """Take a delivered write into private memory; re-project its direction."""
        ...

    def follow(self, node: int, local: Local) -> str | None:
        """Return the native move that follows the field or the commitment, or None."""
        ...

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject late counterevidence if its rule says now."""
        ...
