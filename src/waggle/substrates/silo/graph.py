"""The hidden contact graph: a random connected 3-regular graph per episode (architecture, Silo).

Drawn by the pairing model with rejection, so every labelled simple cubic graph is equally likely;
disconnected draws are rejected too. Nodes see ports, never the graph. `colour_edges` serves the
ceilings only: it finds the three matchings of the edge-coloured exchange.
"""

from random import Random

from waggle.core.errors import ConfigError

DEGREE = 3
_RESTARTS = 20

Graph = tuple[tuple[int, ...], ...]
"""Neighbours of every node, in the node's own random port order."""


def contact_graph(n: int, rng: Random) -> Graph:
    """A random connected 3-regular graph on `n` nodes; four nodes are all in contact."""
    if n < DEGREE + 1 or n % 2:
        raise ConfigError(
            f"Silo's contact graph is 3-regular: use an even agent count of at least 4, not {n}"
        )
    while True:
        ports = _pair_stubs(n, rng)
        if ports and _connected(ports):
            for own in ports:
                rng.shuffle(own)
            return tuple(tuple(own) for own in ports)


def _pair_stubs(n: int, rng: Random) -> list[list[int]]:
    """One attempt of the pairing model; empty if it made a loop or a double edge."""
    stubs = list(range(n)) * DEGREE
    rng.shuffle(stubs)
    ports: list[list[int]] = [[] for _ in range(n)]
    for u, v in zip(stubs[::2], stubs[1::2], strict=True):
        if u == v or v in ports[u]:
            return []
        ports[u].append(v)
        ports[v].append(u)
    return ports


def _connected(ports: list[list[int]]) -> bool:
    seen = frontier = {0}
    while frontier:
        frontier = {v for u in frontier for v in ports[u]} - seen
        seen = seen | frontier
    return len(seen) == len(ports)


def colour_edges(graph: Graph, rng: Random) -> list[list[int]]:
    """For each of three colours the neighbour that every node sends to.

    Almost every cubic graph has a proper colouring, and the walk below finds one: partners then
    send to each other. On those that have none (a graph with a bridge) the ends of an edge that
    stays uncoloured send along it in the round in which they have no partner.
    """
    best = _walk_colouring(graph, rng)
    for _ in range(_RESTARTS):
        if sum(map(len, best)) == DEGREE * len(graph):
            break
        best = max(best, _walk_colouring(graph, rng), key=lambda mates: sum(map(len, mates)))
    for own, mates in zip(graph, best, strict=True):
        free = [colour for colour in range(DEGREE) if colour not in mates]
        mates.update(zip(free, (v for v in own if v not in mates.values()), strict=True))
    return [[mates[colour] for mates in best] for colour in range(DEGREE)]


def _walk_colouring(graph: Graph, rng: Random) -> list[dict[int, int]]:
    """Colour edge by edge; where none fits swap a chain, else push the gap along an edge.

    Returns for each node its partner by colour.
    """
    mates: list[dict[int, int]] = [{} for _ in graph]
    gaps = [(u, v) for u, own in enumerate(graph) for v in own if u < v]
    rng.shuffle(gaps)
    for _ in range(20 * len(gaps)):
        if not gaps:
            break
        u, v = gaps.pop()
        if not _colour_gap(mates, u, v):
            colour = rng.choice([c for c in range(DEGREE) if c not in mates[u]])
            w = mates[v].pop(colour)
            del mates[w][colour]
            mates[u][colour], mates[v][colour] = v, u
            gaps.append((w, v) if rng.random() < 0.5 else (v, w))
    return mates


def _colour_gap(mates: list[dict[int, int]], u: int, v: int) -> bool:
    """Colour the edge u-v, after a two-coloured chain swap at v where that is needed."""
    free_u = [c for c in range(DEGREE) if c not in mates[u]]
    free_v = [c for c in range(DEGREE) if c not in mates[v]]
    for a in free_u:
        if a in free_v or any(_swap_chain(mates, u, v, a, b) for b in free_v):
            mates[u][a], mates[v][a] = v, u
            return True
    return False


def _swap_chain(mates: list[dict[int, int]], u: int, v: int, a: int, b: int) -> bool:
    """Free colour `a` at `v` by swapping a and b along its chain, unless the chain ends at `u`."""
    chain, colour = [v], a
    while colour in mates[chain[-1]]:
        chain.append(mates[chain[-1]][colour])
        colour = b if colour == a else a
    if chain[-1] == u:
        return False
    for node in chain:
        swapped = {{a: b, b: a}.get(c, c): mate for c, mate in mates[node].items()}
        mates[node].clear()
        mates[node].update(swapped)
    return True
