"""What substrates share, so that each writes only what it needs.

The options of a case, checked, and defaults for the optional hooks of a World.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, TypeVar

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


class WorldBase:
    """A world whose writes carry no payload, always arrive and are never withheld."""

    n: int
    keys: Sequence[int]
    readiness: Literal["gate", "native"] = "native"
    handle_life: Literal["episode", "contact"] = "episode"
    refresh: int | None = None
    snapshots: bool = False

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
