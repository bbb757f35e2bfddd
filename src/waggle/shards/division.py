"""The configuration that all shards of an episode share, and the data they exchange.

A division is created once and sent to every shard, which opens a copy of the world from it. A round
has two parts with a barrier after each: a shard returns `ShardDecisions` after the first (views,
decisions, the step of the world) and `ShardRound` after the second (deliveries, expiry). Messages
between shards are sent as one batch of bytes for every pair of shards.
"""

from __future__ import annotations

import pickle
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes
from typing import Any, NamedTuple

from msgspec.structs import astuple

from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Law, Shock, World, Write
from waggle.core.record import FieldMass
from waggle.core.world import Divisible
from waggle.runtime.transport import Message
from waggle.shards.kept import KEY_BYTES
from waggle.shards.partition import Partition, owners, parts


@dataclass(frozen=True)
class Division:
    """One episode, divided into shards."""

    open: Callable[[Case], World]
    case: Case
    settings: Mapping[str, Any]
    """Settings of the runtime: order, switches, perturbation, defence."""
    shards: int
    owner: array[int]
    """The shard of every node."""
    folder: Path
    """Folder of the shards' states and records; all machines can access it."""
    key: bytes
    """The key that seals kept states."""
    curves: bool = False
    """Whether to keep only scores and counts, without the local updates."""

    def nodes(self) -> list[array[int]]:
        """Return the nodes of every shard."""
        return parts(self.owner, self.shards)


def divide(
    world: World, law: Law, open: Callable[[Case], World], case: Case, *, shards: int,
    folder: Path, curves: bool = False, partition: Partition = "grown", key: bytes | None = None,
    **settings: Any,
) -> Division:  # fmt: skip
    """Divide the nodes of a world among shards.

    Without a key a random one is used: only holders of this division can read its kept states.

    Raises:
        ConfigError: for a world that cannot be divided, or a law that needs the whole swarm.
    """
    if not isinstance(world, Divisible):
        raise ConfigError(
            f"{world.contract.task} cannot be dealt to shards; give its world report() and "
            "absorb(), see the page on substrates, or use --engine sync"
        )
    if hasattr(law, "conduct"):
        raise ConfigError(f"{law.name!r} organises the whole swarm; play it on the engine 'sync'")
    owner = owners(world, shards, partition)
    key = key or token_bytes(KEY_BYTES)
    return Division(open, case, settings, shards, owner, folder, key, curves)


class MintedAlias(NamedTuple):
    """An alias that was assigned to a claim while the view of a node was formed."""

    node: int
    claim: str
    alias: str


class ShardDecisions(NamedTuple):
    """A shard's report after its decisions."""

    minted: list[MintedAlias]
    attempted: int
    """Messages sent in this round, one per receiver."""
    crossing: int
    """Messages that leave for other shards."""
    bytes: int
    """Size of the batches that carry them."""
    shock: Shock | None


class ShardRound(NamedTuple):
    """A shard's report at the end of a round."""

    delivered: int
    expired: int
    field: dict[str, FieldMass]
    report: Any
    """The world's report about the nodes of the shard."""
    committed: dict[int, str] | None
    """Node -> claim, as long as late counterevidence may come; None afterwards."""
    counters: Counter[str]
    """Counts of the whole episode so far."""


def pack(letters: Iterable[tuple[int, Message]]) -> bytes:
    """Serialise messages, each with the round at whose end it arrives."""
    return pickle.dumps([(arrival, *m[:2], astuple(m.write), *m[3:]) for arrival, m in letters], 5)


def unpack(batch: bytes) -> Iterator[tuple[int, Message]]:
    """Yield the messages of a batch."""
    for arrival, sent, place, write, *rest in pickle.loads(batch):
        yield arrival, Message(sent, place, Write(*write), *rest)


def united(shocks: Sequence[Shock | None]) -> Shock | None:
    """Merge the late counterevidence that the shards report."""
    found = [shock for shock in shocks if shock is not None]
    if not found:
        return None
    old = sorted({claim for shock in found for claim in shock.old_claims})
    new = sorted({claim for shock in found for claim in shock.new_claims})
    first = found[0]
    return Shock(first.round, tuple(old), tuple(new), first.nodes, first.note)


def summed(fields: Iterable[Mapping[str, FieldMass]]) -> dict[str, FieldMass]:
    """Return the sum of the field mass of all shards."""
    total: dict[str, FieldMass] = {}
    for field in fields:
        for claim, mass in field.items():
            had = total.get(claim)
            if had is not None:
                mass = FieldMass(
                    had.novelty + mass.novelty, had.support + mass.support,
                    had.conflict + mass.conflict, had.traces + mass.traces,
                )  # fmt: skip
            total[claim] = mass
    return {claim: total[claim] for claim in sorted(total)}
