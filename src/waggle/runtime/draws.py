"""The random draws of one round, which determine how each node's channels are presented.

A node's private draw for a neighbour is derived from the node's seed, the round and the neighbour's
key. It determines the channel's lot, its place in the table and the order of the traces on it. All
draws of a round are computed as one array; `seeds.mix` defines each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from waggle.core.seeds import mix_all

UPDATES = 1 << 32
"""First key of a node's own draws, one per update; smaller keys belong to neighbours."""
_PLACES = 2
"""Key of the draw by which channels are ordered."""


class Contacts(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The channels of one node, valid while it has the same neighbours."""

    seed: int
    """The seed of the node, from which its draws are derived."""
    neighbours: tuple[int, ...]
    """In the order of the world."""
    handles: dict[int, str]
    """Neighbour -> handle."""
    back: dict[str, int]
    """Handle -> neighbour."""


class UpdateDraws(msgspec.Struct, frozen=True, gc=False):
    """The random draws of one node for one update."""

    entropy: int
    """The node's own draw, which identifies the update."""
    draws: list[int]
    """The node's draw for each neighbour, in the order of `Contacts.handles`."""
    ports: list[tuple[int, str, int]]
    """(neighbour, handle, lot) in the order of the channel table."""


class _Edges(NamedTuple):
    """The channels of several nodes, concatenated in arrays."""

    contacts: list[Contacts]
    seeds: NDArray[np.uint64]
    """The seed of each node."""
    owners: NDArray[np.intp]
    """The index of each channel's node."""
    keys: NDArray[np.uint64]
    """The key of each channel's neighbour."""
    named: list[tuple[int, str]]
    """(neighbour, handle) of each channel."""
    spans: list[tuple[int, int]]
    """The start and end of each node's channels."""


class Draws:
    """Computes the draws of a swarm, round by round."""

    def __init__(self, keys: Sequence[int]) -> None:
        self._keys = np.fromiter((key % 2**64 for key in keys), np.uint64, len(keys))
        # A cache, valid for exactly these contacts of exactly these nodes. Contacts are replaced,
        # never modified, so the lists are compared by identity of their items.
        self._edges: _Edges | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the cache, which the next round rebuilds."""
        return {**self.__dict__, "_edges": None}

    def make(self, contacts: list[Contacts], round: int) -> list[UpdateDraws]:
        """Compute the draws of several nodes, given their channels."""
        if self._edges is None or self._edges.contacts != contacts:
            self._edges = self._line_up(contacts)
        _, seeds, owners, keys, named, spans = self._edges
        entropies = mix_all(seeds, UPDATES + round).tolist()
        drawn = mix_all((seeds ^ np.uint64(round))[owners], keys)
        order = np.lexsort((mix_all(drawn, _PLACES), owners)).tolist()
        draws: list[int] = drawn.tolist()
        lots: list[int] = (drawn >> np.uint64(60)).tolist()
        ports = [(*named[k], lots[k]) for k in order]
        return [
            UpdateDraws(entropy, draws[start:end], ports[start:end])
            for entropy, (start, end) in zip(entropies, spans, strict=True)
        ]

    def _line_up(self, contacts: list[Contacts]) -> _Edges:
        sizes = [len(one.handles) for one in contacts]
        named = [each for one in contacts for each in one.handles.items()]
        return _Edges(
            contacts,
            np.array([one.seed for one in contacts], np.uint64),
            np.repeat(np.arange(len(contacts)), sizes),
            self._keys[[neighbour for neighbour, _ in named]] if named else self._keys[:0],
            named,
            list(pairwise(accumulate(sizes, initial=0))),
        )
