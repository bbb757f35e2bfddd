"""Crews of ARG-Designer: the members, their roles, and their links to earlier members.

Members are recruited in breadth-first order of the contacts from a random root, so a crew has no
node ids: a member is its place in that order, and its links are to contacts recruited before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import ceil
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from waggle.baselines.peers.dag import Contacts, distances

Direction: TypeAlias = Literal["gather", "scatter"]
DIRECTIONS: tuple[Direction, ...] = ("gather", "scatter")
"""`gather`: members send to earlier members; `scatter`: to later ones."""
COLLECT, RELAY, AGGREGATE, VERIFY = range(4)
ROLES = (
    "collect: send what you hold yourself",
    "relay: send on what has reached you",
    "aggregate: send all that is merged so far",
    "verify: send only what contradicts what you hold",
)
WINDOW = 3
"""Number of earlier contacts that a member may link to, the latest first."""
MEMBERS = 2
"""The smallest crew."""
DENSE = (("full", 1.0), ("full", 0.75), ("full", 0.5), ("mesh", 1.0), ("mesh", 0.5))
SPARSE = (("chain", 1.0), ("chain", 0.5), ("star", 0.0), ("layered", 0.0))
"""Forms and their shares of the nodes: dense ones to explore, sparse ones for efficiency."""


class Crew(NamedTuple):
    """The roles and links of a crew, without node ids."""

    roles: Sequence[int]
    links: Sequence[Sequence[bool]]
    """Whether each member links to each of its candidates, the latest first."""


class Site(NamedTuple):
    """The nodes that a crew can use: in recruiting order, each with its link candidates."""

    order: Sequence[int]
    candidates: Sequence[Sequence[int]]
    depth: Sequence[int]
    """The distance of each node from the root of its connected component."""


def site(contacts: Contacts) -> Site:
    """Return the site of a contact graph, from the first node; unreachable components follow."""
    depth: dict[int, int] = {}
    while len(depth) < len(contacts):
        depth |= distances({node: own for node, own in contacts.items() if node not in depth})
    place = {node: k for k, node in enumerate(depth)}
    candidates = [
        sorted((v for v in contacts[u] if place.get(v, k) < k), key=lambda v: -place[v])[:WINDOW]
        for u, k in place.items()
    ]
    return Site(list(depth), candidates, list(depth.values()))


def successors(crew: Crew, where: Site, direction: Direction) -> dict[int, list[int]]:
    """Return the graph of a crew; nodes outside it have no edge."""
    found: dict[int, list[int]] = {node: [] for node in where.order}
    for member, near, taken in zip(where.order, where.candidates, crew.links, strict=False):
        for earlier in (node for node, link in zip(near, taken, strict=False) if link):
            tail, head = (member, earlier) if direction == "gather" else (earlier, member)
            found[tail].append(head)
    return found


def template(kind: str, share: float, where: Site, rng: Random) -> Crew:
    """Return a crew with random roles and a given form.

    Stars include the contacts of the root and layers one step more; other forms take a share of all
    nodes.
    """
    spans = {"star": 1, "layered": 2}
    if kind in spans:
        count = sum(1 for _ in takewhile(lambda depth: depth <= spans[kind], where.depth))
    else:
        count = ceil(share * len(where.order))
    count = min(len(where.order), max(MEMBERS, count))
    links = [_form(kind, len(near)) for near in where.candidates[:count]]
    return Crew([rng.randrange(len(ROLES)) for _ in range(count)], links)


def _form(kind: str, count: int) -> list[bool]:
    """Return whether a form links to each candidate, the latest first."""
    if kind == "chain":
        return [place == 0 for place in range(count)]
    if kind == "star":
        return [place == count - 1 for place in range(count)]
    if kind == "mesh":
        return [place == 0 or place < count - 1 for place in range(count)]
    return [True] * count


def pruned(crew: Crew, rng: Random, share: float = 0.25) -> Crew:
    """Return a crew with a random share of its links removed."""
    taken = [(m, c) for m, own in enumerate(crew.links) for c, link in enumerate(own) if link]
    gone = set(rng.sample(taken, round(share * len(taken))))
    links = [
        [link and (m, c) not in gone for c, link in enumerate(own)]
        for m, own in enumerate(crew.links)
    ]
    return Crew(crew.roles, links)
