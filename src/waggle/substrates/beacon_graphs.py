"""The contact graphs of beacon: bounded degrees, connected, drawn in time linear in N.

    waggle run beacon -n 10000 --beacon.graph geometric

`rings` is the union of two random rings; `cubic` that of a random ring and a random perfect
matching, which is as good as a uniform random cubic graph; `small-world` is a ring lattice of
degree four with some edges rewired; `geometric` is the Delaunay graph of random points in the
plane. Invariant: every draw depends only on the seed and the bodies that it concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeAlias

from waggle.core import seeds
from waggle.core.protocols import Case

GraphName: TypeAlias = Literal["rings", "cubic", "small-world", "geometric"]
Edges: TypeAlias = Iterator[tuple[int, int]]
REWIRED = 0.1
"""The share of a small world's second-neighbour edges that are rewired to a random node."""


def drawn_order(case: Case, purpose: str) -> list[int]:
    """Return the bodies in a random order that is specific to this purpose."""
    stream = seeds.derive(case.seed, f"beacon {purpose}")
    return sorted(range(case.n), key=lambda body: seeds.mix(stream, body))


def adjacency(case: Case, graph: GraphName, place: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Return the contacts of every node; `place` maps bodies to nodes."""
    contacts: list[dict[int, None]] = [{} for _ in range(case.n)]
    for here, there in _GRAPHS[graph](case):
        contacts[here][place[there]] = None
        contacts[there][place[here]] = None
    bodies = sorted(place, key=lambda body: place[body])
    return [tuple(contacts[body]) for body in bodies]


def _ring(order: list[int]) -> Edges:
    return zip(order, order[1:] + order[:1], strict=True)


def _rings(case: Case) -> Edges:
    for number in (0, 1):
        yield from _ring(drawn_order(case, f"ring {number}"))


def _cubic(case: Case) -> Edges:
    yield from _ring(drawn_order(case, "ring 0"))
    paired = drawn_order(case, "pairs")
    yield from zip(paired[::2], paired[1::2], strict=False)


def _small_world(case: Case) -> Edges:
    order = drawn_order(case, "ring 0")
    yield from _ring(order)
    stream = seeds.derive(case.seed, "beacon rewiring")
    for here, there in zip(order, order[2:] + order[:2], strict=True):
        draw = seeds.mix(stream, here)
        if draw < REWIRED * 2.0**64:
            there = order[seeds.mix(draw, 0) % case.n]
        if there != here:
            yield here, there


def _geometric(case: Case) -> Edges:
    if case.n < 5:  # too few points for a triangulation
        yield from _rings(case)
        return
    from scipy.spatial import Delaunay

    stream = seeds.derive(case.seed, "beacon points")
    points = [
        (seeds.mix(stream, 2 * body) / 2.0**64, seeds.mix(stream, 2 * body + 1) / 2.0**64)
        for body in range(case.n)
    ]
    for a, b, c in Delaunay(points).simplices.tolist():
        yield from ((a, b), (b, c), (c, a))


_GRAPHS: dict[GraphName, Callable[[Case], Edges]] = {
    "rings": _rings, "cubic": _cubic, "small-world": _small_world, "geometric": _geometric,
}  # fmt: skip
