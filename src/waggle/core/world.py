"""What substrates share, so that each writes only what it needs.

The options of a case, checked, and defaults for the optional hooks of a World.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ValidationError

from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Shock, Write

_Options = TypeVar("_Options", bound=BaseModel)


def read_options(model: type[_Options], case: Case) -> _Options:
    """Return the options of a case as its substrate's model.

    Raises:
        ConfigError: one line that names the first bad option as the command line spells it.
    """
    try:
        return model.model_validate(dict(case.options))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"--{case.substrate}.{where}: {first['msg']}") from None


@runtime_checkable
class Divisible(Protocol):
    """A world whose nodes may be dealt to shards, each with a copy of the world of its own.

    It keeps the dynamic state of a node apart from that of all others: what `sense`, `withhold`,
    `fingerprint`, `payload` and the node's part of `step` read and change is the state of that
    node, or a clock that every copy advances; `receive` changes the receiver alone. What was drawn
    at the opening is the same in every copy. `shock` is called on every copy, with all commitments,
    and the claims that the copies name are united. A copy that plays nobody collects the reports:
    it is asked for scores, shares, the shock's time and the end. Copies can be pickled.
    """

    own: Sequence[int] | None

    def restrict(self, nodes: Sequence[int]) -> None:
        """Play these nodes alone from now on, in ascending order; called once, before round 0."""
        ...

    def depart(self, write: Write, payload: object) -> object:
        """Return a payload with all that its receiver reads of the sender; called after `step`."""
        ...

    def report(self) -> object:
        """Return what scores and shares read of the nodes that are played here."""
        ...

    def absorb(self, parts: Sequence[tuple[Sequence[int], Any]]) -> None:
        """Take the reports of all shards, each with its nodes."""
        ...


class WorldBase:
    """A world whose writes carry no payload, always arrive and are never withheld."""

    n: int
    keys: Sequence[int]
    readiness: Literal["gate", "native"] = "native"
    handle_life: Literal["episode", "contact"] = "episode"
    refresh: int | None = None
    snapshots: bool = False
    own: Sequence[int] | None = None
    """The nodes that are played here, where a swarm is dealt to shards; None for all."""

    def active(self) -> Sequence[int]:
        """Everyone who is played here takes part."""
        return range(self.n) if self.own is None else self.own

    def restrict(self, nodes: Sequence[int]) -> None:
        """Play these nodes alone from now on; others play the rest."""
        self.own = nodes

    def depart(self, write: Write, payload: object) -> object:
        """Let a payload leave for another shard as it is."""
        return payload

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
