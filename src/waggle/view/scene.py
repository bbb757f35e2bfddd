"""The positions of the agents of a record: a map drawn by its world, or a graph of contacts.

A world with a method `places` (row and column of every node) is replayed to draw its map. For any
other world, the graph has its initial contacts as edges; for a case that cannot be opened here, the
messages in its record. Large swarms are a spiral of dots, which shows the density of claims.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx

from waggle.api.episode import open_world
from waggle.core.errors import WaggleError
from waggle.core.protocols import World
from waggle.core.record import EpisodeRecord, Header
from waggle.core.seeds import derive
from waggle.runtime.live import place_of
from waggle.runtime.replay import replay
from waggle.view.decisions import whole

MAX_DRAWN = 400
"""Largest swarm whose graph is laid out; a larger one is drawn as a spiral."""
MAX_REPLAYED = 40_000
"""Largest number of local updates that are replayed for a map."""
MAX_EDGES = 20_000
Edge = tuple[int, int]
_NO_WORLD = (WaggleError, msgspec.MsgspecError, LookupError, ValueError, TypeError)


def scene(
    header: Header, n: int, met: Collection[Edge], path: Path | None = None
) -> dict[str, Any]:
    """Return the scene of a swarm: its map, or its graph and layout.

    Args:
        header: the header of the record.
        n: number of agents.
        met: pairs of agents that exchanged a message, the smaller number first.
        path: the record's file, or None if it is too large to be replayed.
    """
    edges: Collection[Edge] = met
    if n <= MAX_DRAWN:
        try:
            world = open_world(header)
            if hasattr(world, "places"):
                if path is not None and (found := _map(whole(path), world)):
                    return found
            else:
                pairs = ((i, int(j)) for i in range(n) for j in world.neighbours(i))
                edges = {(min(pair), max(pair)) for pair in pairs}
        except _NO_WORLD:
            pass  # fall back to the messages of the record
    shown = sorted(edges)[:MAX_EDGES] if n <= MAX_DRAWN else []
    return {"kind": "graph", "edges": shown, "xy": _layout(n, shown) if n <= MAX_DRAWN else None}


def _map(record: EpisodeRecord, world: World) -> dict[str, Any] | None:
    """Replay a record and return the map and every agent's cell after each round."""
    if sum(len(entry.updates) for entry in record.rounds) > MAX_REPLAYED:
        return None
    maps: list[list[str]] = []
    cells: list[list[Edge]] = []

    def keep(world: World) -> None:
        place = place_of(world)
        maps.append(place.map)
        cells.append(place.cells)

    again = replay(record, world, keep)
    if len(cells) < len(record.rounds):
        raise ValueError(again.difference)
    return {"kind": "grid", "maps": maps, "cells": cells}


def _layout(n: int, edges: Collection[Edge]) -> list[tuple[float, float]]:
    """Return positions in the unit square, with neighbours close to each other."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    seed = derive(0, "view layout", n) % (1 << 32)
    found = nx.spring_layout(graph, seed=seed, iterations=60, method="force")
    columns = list(zip(*(found[node] for node in range(n)), strict=True))
    scaled = []
    for column in columns:
        low, high = min(column), max(column)
        scaled.append([round(float((v - low) / ((high - low) or 1)), 4) for v in column])
    return list(zip(*scaled, strict=True))
