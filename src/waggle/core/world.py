"""Code that substrates share, so that each implements only what is specific to it.

It validates the options of a case and provides defaults for the hooks of a World.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ValidationError

from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Shock, Write

_Options = TypeVar("_Options", bound=BaseModel)


def read_options(model: type[_Options], case: Case) -> _Options:
    """Validate the options of a case with the substrate's pydantic model.

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
    """A world whose nodes can be split over shards, each of which has a copy of the world.

    The dynamic state of each node is separate: `sense`, `withhold`, `fingerprint`, `payload` and
    the node's part of `step` read and change only the state of that node, or a clock that every
    copy advances; `receive` changes only the receiver. Random draws at the opening are the same in
    every copy. `shock` is called on every copy, with all commitments, and the claims that the
    copies return are merged. One copy without nodes collects the reports and provides scores,
    shares, the time of the shock and the end of the episode. Copies can be pickled.
    """

    own: Sequence[int] | None

    def restrict(self, nodes: Sequence[int]) -> None:
        """Play only these nodes, given in ascending order; called once, before round 0."""
        ...

    def depart(self, write: Write, payload: object) -> object:
        """Return a payload with all sender state that the receiver reads; called after `step`."""
        ...

    def report(self) -> object:
        """Return the state of this copy's nodes that scores and shares read."""
        ...

    def absorb(self, parts: Sequence[tuple[Sequence[int], Any]]) -> None:
        """Store the reports of all shards, each given with its nodes."""
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
    """The nodes of this shard if the swarm is split over shards; None for all."""

    def active(self) -> Sequence[int]:
        """Return all nodes that this copy plays."""
        return range(self.n) if self.own is None else self.own

    def restrict(self, nodes: Sequence[int]) -> None:
        """Play only these nodes; other shards play the rest."""
        self.own = nodes

    def depart(self, write: Write, payload: object) -> object:
        """Return the payload unchanged."""
        return payload

    def withhold(self, write: Write) -> str | None:
        """Suppress nothing."""
        return None

    def fingerprint(self, write: Write) -> Hashable:
        """Treat writes to one receiver as repeats if claim and sign of conflict are the same."""
        return (write.receiver, write.claim, write.conflict > 0)

    def payload(self, write: Write) -> object:
        """Send no payload."""
        return None

    def receive(self, write: Write, payload: object) -> Write | None:
        """Accept every write unchanged."""
        return write

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject nothing."""
        return None

    def done(self) -> bool:
        """Never end before the horizon."""
        return False

    def render(self) -> str:
        """Return an empty drawing."""
        return ""
