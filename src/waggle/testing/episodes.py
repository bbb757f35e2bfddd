"""Short in-memory episodes for conformance checks, on either engine and under perturbation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from waggle.core import seeds
from waggle.core.errors import ConfigError
from waggle.core.order import Order
from waggle.core.protocols import Case, Law, Substrate
from waggle.core.record import EpisodeRecord
from waggle.runtime.defence import Defence
from waggle.runtime.eventdriven import EventEngine
from waggle.runtime.perturb import Perturbation
from waggle.runtime.recorder import Memory
from waggle.runtime.staff import Staff
from waggle.runtime.sync import Engine

EngineName: TypeAlias = Literal["sync", "event"]
ENGINES: tuple[EngineName, ...] = ("sync", "event")

MAX_ROUNDS = 12
"""Rounds after which a conformance episode is cut, if the task would run longer."""


class Regime(NamedTuple):
    """A named execution regime."""

    name: str
    perturbation: Perturbation


REGIMES: tuple[Regime, ...] = (
    Regime("quiet", Perturbation()),
    Regime("delay", Perturbation(delay=2)),
    Regime("loss", Perturbation(loss=0.2)),
    Regime("churn", Perturbation(churn=0.25, churn_at=2)),
    Regime(
        "everything",
        Perturbation(
            delay=2, loss=0.1, churn=0.25, departures=0.1, arrivals=0.1, arrivals_at=2, call_delay=2
        ),
    ),
)
"""The regimes under which relabelling must not matter; call delay acts on the event engine."""


def short(substrate: Substrate, case: Case, rounds: int = MAX_ROUNDS) -> Case:
    """Return the case, cut to a few rounds if its task would run longer."""
    if case.rounds is not None or substrate.open(case).rounds <= rounds:
        return case
    return msgspec.structs.replace(case, rounds=rounds)


def shocked(substrate: Substrate, case: Case) -> Case:
    """Return the case with late counterevidence if its task supports it, else unchanged."""
    late = msgspec.structs.replace(case, shock=True)
    try:
        substrate.open(late)
    except ConfigError:
        return case
    return late


def play(
    substrate: Substrate,
    law: Law,
    case: Case,
    *,
    engine: EngineName = "sync",
    order: Order = "shuffled",
    perturbation: Perturbation | None = None,
    defence: Defence | None = None,
    keys: Sequence[int] | None = None,
    salt: int = 0,
    staff: Staff | None = None,
) -> EpisodeRecord:
    """Play one episode and return its record."""
    memory = Memory()
    make = Engine if engine == "sync" else EventEngine
    world = substrate.open(case, keys)
    settings: dict[str, Any] = {"order": order, "perturbation": perturbation, "salt": salt}
    make(world, law, case, sinks=[memory], staff=staff, defence=defence, **settings).play()
    return memory.record()


def permutation(n: int, seed: int) -> tuple[int, ...]:
    """Return a random relabelling of n nodes: entry i is the body that node i becomes."""
    stream = seeds.derive(seed, "relabelling")
    return tuple(sorted(range(n), key=lambda body: seeds.mix(stream, body)))
