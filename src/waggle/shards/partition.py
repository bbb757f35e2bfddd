"""Assignment of nodes to shards: parts of equal size with few contacts between them.

The nodes are put in the order of a breadth-first walk from an end of the graph and cut into equal
segments; then single nodes move to the shard with most of their contacts, while the sizes stay
within two per cent of the mean. The cost is linear in the number of contacts. On geometric graphs a
few per cent of the contacts cross shards; on random graphs no partition keeps most of them inside.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from waggle.core.errors import ConfigError
from waggle.core.protocols import World

Partition: TypeAlias = Literal["grown", "dealt"]
"""Grown along contacts, or dealt round-robin, for comparison."""
MOST = 1_000
"""More shards than this are taken for a typing error."""
SLACK = 0.02
"""Largest relative deviation of a shard's size from the mean."""
PASSES = 4
"""Maximum number of passes over all nodes that move nodes between shards."""

Contacts: TypeAlias = Callable[[int], Sequence[int]]


def owners(world: World, shards: int, how: Partition = "grown") -> array[int]:
    """Return the shard of every node.

    Raises:
        ConfigError: for fewer than one shard, or more than there are nodes.
    """
    if not 1 <= shards <= min(world.n, MOST):
        raise ConfigError(
            f"--shards must be from 1 to {min(world.n, MOST):,} for {world.n:,} agents, "
            f"not {shards}"
        )
    if how == "dealt" or shards == 1:
        return array("H", (node % shards for node in range(world.n)))
    walk = _walk(world.neighbours, world.n)
    owner = array("H", bytes(2 * world.n))
    for place, node in enumerate(walk):
        owner[node] = place * shards // world.n
    _refine(world.neighbours, owner, shards)
    return owner


def parts(owner: Sequence[int], shards: int) -> list[array[int]]:
    """Return the nodes of every shard, in ascending order."""
    found = [array("L") for _ in range(shards)]
    for node, shard in enumerate(owner):
        found[shard].append(node)
    return found


def crossing(world: World, owner: Sequence[int]) -> float:
    """Return the share of contacts that cross shards."""
    total = across = 0
    for node in range(world.n):
        for other in world.neighbours(node):
            total += 1
            across += owner[node] != owner[other]
    return across / total if total else 0.0


def _walk(contacts: Contacts, n: int) -> list[int]:
    """Return all nodes in breadth-first order, from an end of the graph."""
    end = _breadth_first(contacts, [0], n)[-1]
    return _breadth_first(contacts, [end, *range(n)], n)


def _breadth_first(contacts: Contacts, starts: Sequence[int], n: int) -> list[int]:
    seen, order = bytearray(n), []
    for start in starts:
        queue = deque(() if seen[start] else (start,))
        seen[start] = 1
        while queue:
            node = queue.popleft()
            order.append(node)
            for other in contacts(node):
                if not seen[other]:
                    seen[other] = 1
                    queue.append(other)
    return order


def _refine(contacts: Contacts, owner: array[int], shards: int) -> None:
    """Move nodes to the shard with most of their contacts, while sizes stay close to the mean."""
    sizes = [0] * shards
    for shard in owner:
        sizes[shard] += 1
    room = max(1, int(SLACK * len(owner) / shards))
    low, high = len(owner) // shards - room, -(-len(owner) // shards) + room
    for _ in range(PASSES):
        moved = 0
        for node, own in enumerate(owner):
            if sizes[own] <= low:
                continue
            near = [owner[other] for other in contacts(node)]
            best = max(near, key=near.count, default=own)
            if near.count(best) > near.count(own) and sizes[best] < high:
                owner[node] = best
                sizes[own] -= 1
                sizes[best] += 1
                moved += 1
        if not moved:
            return
