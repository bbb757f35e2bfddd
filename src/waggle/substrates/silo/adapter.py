"""The Silo substrate: options, contract and the opening of a case (architecture, section 4).

    waggle run silo/III-26 -n 32 --silo.regime ports --silo.cap 1024

Invariant: (task, n, seed) alone determines the instance and its contact graph.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.core.world import read_options
from waggle.substrates.silo.cases import TASKS, find_task
from waggle.substrates.silo.world import SHOCK_FROM, SiloWorld

MAX_ROUNDS = 1_000


class SiloOptions(BaseModel):
    """Options of silo."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    regime: Literal["directed", "ports"] = "directed"
    """directed: one frame per node and round; ports: one frame of limited size per port and
    round."""

    cap: Annotated[int, Field(ge=64, le=1_000_000)] = 4096
    """Maximum bytes of shard data per frame; regime ports only."""


class Silo:
    """The thirty Silo-Bench tasks on a hidden 3-regular contact graph."""

    name: ClassVar[str] = "silo"
    tasks: ClassVar[tuple[str, ...]] = tuple(TASKS)
    options: ClassVar[type[SiloOptions]] = SiloOptions

    def open(self, case: Case, keys: Sequence[int] | None = None) -> SiloWorld:
        """Build the world of a case; `case.rounds` counts communication rounds."""
        task = find_task(case.task)
        if case.shock and task.renew is None:
            able = ", ".join(t.id for t in TASKS.values() if t.renew is not None)
            raise ConfigError(f"{task.id} has no late counterevidence; use one of {able}")
        if case.rounds is not None and not 1 <= case.rounds <= MAX_ROUNDS:
            raise ConfigError(f"silo needs 1 to {MAX_ROUNDS} rounds, not {case.rounds}")
        if case.shock and case.rounds is not None and case.rounds < SHOCK_FROM:
            raise ConfigError(
                f"late counterevidence comes from round {SHOCK_FROM} on, so that silo with a shock "
                f"needs at least {SHOCK_FROM} rounds, not {case.rounds}"
            )
        options = read_options(SiloOptions, case)
        return SiloWorld(case, options.cap if options.regime == "ports" else None, keys)
