"""The swarm's coordination state: per node a field, a commitment, its handles and fingerprints."""

from __future__ import annotations

from collections.abc import Hashable

from waggle.core.protocols import Case, Held, Local, World
from waggle.core.schema import View
from waggle.core.seeds import derive
from waggle.runtime.field import Field
from waggle.runtime.names import Aliases
from waggle.runtime.switches import Switches


class Node:
    """What the runtime keeps for one node between its updates."""

    __slots__ = (
        "claim", "confidence", "field", "handle_seed", "handles", "incarnations", "seed", "seen",
    )  # fmt: skip

    def __init__(self, seed: int, handle_seed: int) -> None:
        self.seed = seed
        self.handle_seed = handle_seed
        self.field = Field()
        self.claim: str | None = None
        self.confidence = 0
        self.handles: dict[int, str] = {}
        self.incarnations: dict[int, int] = {}
        self.seen: dict[Hashable, int] = {}


class Shown:
    """A view as one node's law sees it, with the way back from its names to the world."""

    __slots__ = ("claims", "data", "entropy", "handles", "held", "refuted", "view")

    def __init__(
        self,
        view: View,
        data: bytes,
        handles: dict[str, int],
        claims: dict[str, str],
        held: tuple[Held, ...],
        refuted: frozenset[str],
        entropy: int,
    ) -> None:
        self.view = view
        self.data = data
        """The view's canonical JSON."""
        self.handles = handles
        """Shown handle -> neighbour."""
        self.claims = claims
        """Shown claim -> world claim."""
        self.held = held
        self.refuted = refuted
        """World claims that the node's own evidence contradicts."""
        self.entropy = entropy
        """The node's own draw for this update, for laws that sample."""


class Swarm:
    """All nodes of one episode, over one world."""

    def __init__(self, world: World, case: Case, switches: Switches, salt: int) -> None:
        self.world = world
        self.case = case
        self.switches = switches
        self.aliases = Aliases(case.seed, salt)
        self.nodes = [
            Node(derive(case.seed, "node", key), derive(case.seed, "handles", salt, key))
            for key in world.keys
        ]

    def local(self, node: int) -> Local:
        """Return what a substrate may read of one node."""
        state = self.nodes[node]
        held = state.field.traces() if self.switches.conflict else state.field.without_conflict()
        return Local(held, state.claim, state.confidence)

    def committed(self) -> dict[int, str]:
        """Return node -> world claim for every committed node."""
        return {i: n.claim for i, n in enumerate(self.nodes) if n.claim is not None}
