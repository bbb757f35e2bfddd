"""Perturbations as event schedules: delay, loss, churn, departures, arrivals, slow calls, attacks.

Both engines read the same schedule. Every draw is derived from the keys of the nodes it concerns,
so a relabelled swarm gets the relabelled schedule (Proposition 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import msgspec

from waggle.core.errors import ConfigError
from waggle.core.seeds import derive, mix
from waggle.runtime.attacks import ATTACKS, Attack


class Perturbation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One execution regime; the default is the unperturbed reference."""

    delay: int = 0
    """Extra delivery delay of each message, uniform from 0 to this many rounds."""
    loss: float = 0.0
    """Share of messages dropped."""
    churn: float = 0.0
    """Share of active nodes suspended temporarily: no calls, no actions, incoming messages
    dropped."""
    churn_rounds: int = 2
    """Rounds for which these nodes are suspended."""
    churn_at: int | None = None
    """Round of the suspension. Default: when counterevidence is injected, else half the horizon."""
    departures: float = 0.0
    """Share of nodes that leave permanently."""
    departures_at: int | None = None
    """Round of the departures. Default: half the horizon."""
    arrivals: float = 0.0
    """Share of nodes that are absent at the start."""
    arrivals_at: int | None = None
    """Round of the arrivals. Default: a quarter of the horizon."""
    call_delay: int = 0
    """Event engine only: extra rounds per call, uniform from 0 to this many."""
    byzantine: float = 0.0
    """Share of Byzantine nodes, which attack instead of following the law."""
    attack: Attack = "silent"
    """Behaviour of Byzantine nodes: silent, wait, lie, flipflop, stale, spam, fabricate, challenge
    or collude."""

    def __post_init__(self) -> None:
        for name in ("loss", "churn", "departures", "arrivals", "byzantine"):
            share = getattr(self, name)
            if not 0.0 <= share <= 1.0:
                raise ConfigError(f"perturbation {name} must be a share from 0 to 1, not {share:g}")
        for name in ("delay", "call_delay", "churn_rounds"):
            if not 0 <= getattr(self, name) <= 1_000:
                raise ConfigError(f"perturbation {name} must be from 0 to 1000 rounds")
        for name in ("churn_at", "departures_at", "arrivals_at"):
            at = getattr(self, name)
            if at is not None and at < 0:
                raise ConfigError(f"perturbation {name} must be a round from 0 on")
        if self.attack not in ATTACKS:
            raise ConfigError(f"perturbation attack must be one of {', '.join(ATTACKS)}")

    def on(self, engine: str) -> Perturbation:
        """Return this perturbation if an engine can play it.

        Raises:
            ConfigError: for slow calls on an engine whose calls take no time.
        """
        if self.call_delay and engine != "event":
            raise ConfigError("slow calls (call_delay) need the engine `event`")
        return self


class Schedule:
    """The perturbation of one episode, with its random draws."""

    def __init__(self, p: Perturbation, seed: int, keys: Sequence[int], rounds: int) -> None:
        self._p = p
        self._keys = keys
        self._seed = derive(seed, "perturbation")
        self._churn_at = p.churn_at
        self._half = rounds // 2
        self._suspended = self._pick("churn", p.churn)
        self._leaving = self._pick("departures", p.departures)
        self._coming = self._pick("arrivals", p.arrivals)
        self.byzantine = self._pick("byzantine", p.byzantine)
        """The nodes that attack."""
        self._leave_at = self._half if p.departures_at is None else p.departures_at
        self._come_at = rounds // 4 if p.arrivals_at is None else p.arrivals_at
        self.quiet = p == Perturbation()
        """True for the unperturbed reference."""

    def _pick(self, purpose: str, share: float) -> frozenset[int]:
        """Pick a share of the nodes uniformly, by draws derived from their keys."""
        if share <= 0.0:
            return frozenset()
        seed = derive(self._seed, purpose)
        ranked = sorted(range(len(self._keys)), key=lambda i: mix(seed, self._keys[i]))
        # In decimal: 0.07 of 100 nodes are seven, though the binary product is above 7.
        return frozenset(ranked[: ceil(Fraction(repr(share)) * len(ranked))])

    def injected(self, round: int) -> None:
        """Register that counterevidence was injected; churn starts then unless its round is set."""
        if self._churn_at is None:
            self._churn_at = round

    def absent(self, node: int, round: int) -> bool:
        """Return whether a node is suspended, has departed or has not arrived yet."""
        if self.quiet:
            return False
        start = self._half if self._churn_at is None else self._churn_at
        return (
            (node in self._suspended and start <= round < start + self._p.churn_rounds)
            or (node in self._leaving and round >= self._leave_at)
            or (node in self._coming and round < self._come_at)
        )

    def suspended(self, round: int) -> tuple[int, ...]:
        """Return the nodes that are away in a round."""
        if self.quiet:
            return ()
        return tuple(i for i in range(len(self._keys)) if self.absent(i, round))

    def _draw(self, purpose: str, *key: int) -> int:
        return derive(self._seed, purpose, *key)

    def arrival(self, sender: int, receiver: int, round: int, index: int) -> int | None:
        """Return the round at whose end a message arrives, or None if it is lost."""
        if self.quiet:
            return round
        key = (self._keys[sender], self._keys[receiver], round, index)
        if self._p.loss and self._draw("loss", *key) < self._p.loss * 2.0**64:
            return None
        if not self._p.delay:
            return round
        return round + self._draw("delay", *key) % (self._p.delay + 1)

    def call_rounds(self, node: int, round: int) -> int:
        """Return how many extra rounds a call started now takes."""
        if not self._p.call_delay:
            return 0
        return self._draw("call", self._keys[node], round) % (self._p.call_delay + 1)
