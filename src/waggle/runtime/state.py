"""The swarm's coordination state: per node a field, a commitment, its handles and fingerprints.

A trace is held per (neighbour, claim) and the newest wins. Each round it loses one TTL step and
one bin of novelty, and one bin of support every second round without refresh.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import msgspec

from waggle.core.protocols import Case, HeldTrace, Local, World, Write
from waggle.core.record import WorkRecord
from waggle.core.schema import View
from waggle.core.seeds import derive
from waggle.runtime.defence import Defence, Reopenings, Reputation
from waggle.runtime.draws import Contacts, Draws
from waggle.runtime.names import Aliases
from waggle.runtime.switches import Switches


class Field:
    """The traces one node holds, in world words."""

    __slots__ = ("_ages", "_cells", "_traces")

    def __init__(self) -> None:
        self._cells: dict[tuple[int, str], HeldTrace] = {}
        self._ages: dict[tuple[int, str], int] = {}
        # A cache of the cells as a tuple; every change of a cell sets it to None.
        self._traces: tuple[HeldTrace, ...] | None = ()

    def __len__(self) -> int:
        return len(self._cells)

    def traces(self) -> tuple[HeldTrace, ...]:
        """Return all held traces."""
        if self._traces is None:
            self._traces = tuple(self._cells.values())
        return self._traces

    def put(self, write: Write) -> None:
        """Store a delivered write; it replaces the trace of that channel and claim, if any."""
        key = (write.sender, write.claim)
        self._cells[key] = HeldTrace(
            write.sender, write.claim, write.novelty, write.support, write.conflict, write.ttl,
            write.direction,
        )  # fmt: skip
        self._ages[key] = 0
        self._traces = None

    def age(self) -> int:
        """Advance one round of decay and expiry; return how many traces expired."""
        expired = 0
        self._traces = None
        for key, held in list(self._cells.items()):
            if held.ttl <= 1:
                del self._cells[key], self._ages[key]
                expired += 1
                continue
            self._ages[key] = age = self._ages[key] + 1
            self._cells[key] = HeldTrace(
                held.neighbour,
                held.claim,
                held.novelty - 1 if held.novelty else 0,
                held.support - 1 if held.support and age % 2 == 0 else held.support,
                held.conflict,
                held.ttl - 1,
                held.direction,
            )
        return expired

    def is_new(self, held: HeldTrace) -> bool:
        """Return whether a held trace arrived with the last delivery."""
        return self._ages.get((held.neighbour, held.claim)) == 0

    def drop(self, keys: Iterable[tuple[int, str]]) -> None:
        """Drop single traces, each given by its neighbour and claim."""
        for key in keys:
            del self._cells[key], self._ages[key]
        self._traces = None

    def forget(self, neighbours: frozenset[int]) -> None:
        """Drop the traces of all neighbours but these."""
        self.drop([key for key in self._cells if key[0] not in neighbours])

    def without_conflict(self) -> tuple[HeldTrace, ...]:
        """Return the traces as the NoConflict switch shows them."""
        return tuple(msgspec.structs.replace(h, conflict=0) for h in self._cells.values())


class Node:
    """The runtime state of one node between its updates."""

    __slots__ = (
        "claim", "confidence", "contacts", "doubts", "field", "handle_seed", "handles",
        "incarnations", "reopenings", "seed", "seen",
    )  # fmt: skip

    def __init__(self, seed: int, handle_seed: int) -> None:
        self.seed = seed
        self.handle_seed = handle_seed
        self.field = Field()
        self.claim: str | None = None
        self.confidence = 0
        self.contacts = Contacts(seed, (), {}, {})
        self.handles: dict[int, str] = {}
        self.incarnations: dict[int, int] = {}
        self.seen: dict[Hashable, int] = {}
        self.doubts = Reputation()
        self.reopenings = Reopenings()


class ShownView(msgspec.Struct, gc=False, eq=False):
    """A view as shown to the law, with the mapping of its names back to the world."""

    view: View
    data: bytes
    """The view's canonical JSON."""
    handles: dict[str, int]
    """Shown handle -> neighbour."""
    claims: dict[str, str]
    """Shown claim -> world claim; it may contain claims of other views."""
    held: tuple[HeldTrace, ...]
    refuted: frozenset[str]
    """World claims that the node's own evidence contradicts."""
    entropy: int
    """The node's random draw for this update, for laws that sample."""
    work: WorkRecord | None = None
    """The call of the node's private worker for this update, if any."""


class Swarm:
    """All nodes of one episode, over one world."""

    def __init__(
        self,
        world: World,
        case: Case,
        switches: Switches,
        salt: int,
        defence: Defence | None = None,
    ) -> None:
        self.world = world
        self.case = case
        self.switches = switches
        self.defence = defence or Defence()
        self.aliases = Aliases(case.seed, salt)
        self.draws = Draws(world.keys)
        own = getattr(world, "own", None)
        self.nodes = {
            i: Node(derive(case.seed, "node", key), derive(case.seed, "handles", salt, key))
            for i, key in _places(world.keys, own)
        }
        """The state of every node that is played here, in ascending order."""

    def local(self, node: int) -> Local:
        """Return the state of one node that a substrate may read."""
        state = self.nodes[node]
        held = state.field.traces() if self.switches.conflict else state.field.without_conflict()
        return Local(held, state.claim, state.confidence)

    def committed(self) -> dict[int, str]:
        """Return node -> world claim for every committed node."""
        return {i: n.claim for i, n in self.nodes.items() if n.claim is not None}


def _places(keys: Sequence[int], own: Sequence[int] | None) -> Iterable[tuple[int, int]]:
    """Return (node, key) of all nodes, or of those that a shard plays."""
    return enumerate(keys) if own is None else ((node, keys[node]) for node in own)
