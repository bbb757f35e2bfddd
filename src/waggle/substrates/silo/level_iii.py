"""Level III of Silo-Bench: ten tasks that need a global shuffle (specification section 2).

The costly golds (graphs, dot products) run on numpy arrays prepared once per shard.
"""

import heapq
import math
from random import Random
from typing import Any

import numpy as np

from waggle.substrates.silo.level_i import count_distinct, draw_values, value_bits
from waggle.substrates.silo.task import (
    Setting,
    Task,
    TaskDraw,
    drawn_integers,
    of_all,
    of_items,
    split,
    vertices,
)

_DIMENSIONS = 5
_CLUSTERS = 3


def _draw_median(rng: Random, n: int) -> TaskDraw:
    shards, _ = drawn_integers(25, 1, 1000, shuffled=True)(rng, n)
    return TaskDraw(shards, {"median_pos": 25 * n // 2})


def _draw_edges(rng: Random, n: int) -> TaskDraw:
    nodes = 10 * n
    attempts = [[rng.randint(0, nodes - 1), rng.randint(0, nodes - 1)] for _ in range(20 * n)]
    edges = [edge for edge in attempts if edge[0] != edge[1]]
    rng.shuffle(edges)
    return TaskDraw(split(edges, n), {"total_nodes": nodes})


def _draw_simple_edges(rng: Random, n: int, *, directed: bool) -> TaskDraw:
    nodes = 8 * n
    edges: dict[tuple[int, int], list[int]] = {}
    for _ in range(16 * n):
        u, v = rng.randint(0, nodes - 1), rng.randint(0, nodes - 1)
        if u != v:
            edges.setdefault((u, v) if directed else (min(u, v), max(u, v)), [u, v])
    kept = list(edges.values())
    rng.shuffle(kept)
    return TaskDraw(split(kept, n), {"total_nodes": nodes})


def _draw_points(rng: Random, n: int) -> TaskDraw:
    points = [[rng.uniform(0, 100), rng.uniform(0, 100)] for _ in range(20 * n)]
    centroids = [[rng.uniform(0, 100), rng.uniform(0, 100)] for _ in range(_CLUSTERS)]
    rng.shuffle(points)
    return TaskDraw(split(points, n), {"centroids": centroids})


def _draw_vectors(rng: Random, n: int) -> TaskDraw:
    tagged = [
        (kind, str(i), [rng.uniform(0, 1) for _ in range(_DIMENSIONS)])
        for kind in ("users", "items")
        for i in range(3 * n)
    ]
    rng.shuffle(tagged)
    shards: list[Any] = []
    for piece in split(tagged, n):
        shard: dict[str, dict[str, list[float]]] = {"users": {}, "items": {}}
        for kind, identity, vector in piece:
            shard[kind][identity] = vector
        shards.append(shard)
    return TaskDraw(shards, {})


def _draw_durations(rng: Random, n: int) -> TaskDraw:
    jobs = [
        {"id": i, "duration": rng.randint(50, 100) if i % 10 == 0 else rng.randint(1, 10)}
        for i in range(20 * n)
    ]
    heavy = [job for job in jobs if job["id"] % 10 == 0]
    light = [job for job in jobs if job["id"] % 10]
    public = {"total_tasks": len(jobs), "total_duration": sum(job["duration"] for job in jobs)}
    return TaskDraw([heavy, *split(light, n - 1)], public)


def _draw_matrices(rng: Random, n: int) -> TaskDraw:
    a, b = ([[rng.randint(1, 10) for _ in range(n)] for _ in range(n)] for _ in range(2))
    shards = [
        {"type": "rows_and_full_B", "A_rows": [row], "A_row_indices": [i], "B_matrix": b}
        for i, row in enumerate(a)
    ]
    return TaskDraw(list(shards), {"dim": n})


def _sorted_slice(parts: dict[int, Any], me: int, setting: Setting) -> list[int]:
    everything = sorted(x for part in parts.values() for x in part)
    size = len(parts[me])
    return everything[size * me : size * (me + 1)]


def _edge_columns(shard: list[list[int]], setting: Setting) -> Any:
    edges = np.array(shard, dtype=np.int64).reshape(-1, 2).T
    nodes = setting.public["total_nodes"]
    if nodes > 64 * setting.n:
        raise ValueError("total_nodes is beyond what this task draws")
    if edges.size and not 0 <= edges.min() <= edges.max() < nodes:
        raise ValueError("an edge names a node outside 0..total_nodes-1")
    return edges


def _components(parts: dict[int, Any], me: int, setting: Setting) -> int:
    """Count components by union-find with path halving; faster here than a sparse matrix."""
    root = list(range(setting.public["total_nodes"]))
    count = len(root)
    for u, v in np.concatenate(list(parts.values()), axis=1).T.tolist():
        while root[u] != u:
            root[u] = u = root[root[u]]
        while root[v] != v:
            root[v] = v = root[root[v]]
        if u != v:
            root[u] = v
            count -= 1
    return count


def _distances(parts: dict[int, Any], me: int, setting: Setting) -> dict[str, int]:
    nodes = setting.public["total_nodes"]
    edges = np.concatenate(list(parts.values()), axis=1)
    source, target = np.concatenate((edges, edges[::-1]), axis=1)
    distance = np.full(nodes, -1)
    distance[0] = hops = 0
    while True:
        reached = target[distance[source] == hops]
        fresh = reached[distance[reached] < 0]
        if not fresh.size:
            return {str(node): d for node, d in enumerate(distance.tolist())}
        hops += 1
        distance[fresh] = hops


def _page_rank(parts: dict[int, Any], me: int, setting: Setting) -> dict[str, float]:
    """Run one push step; add mass in source order, because rounding ties depend on that order."""
    nodes = setting.public["total_nodes"]
    u, v = np.concatenate(list(parts.values()), axis=1)
    order = np.argsort(u, kind="stable")
    pushed = (0.85 * (1 / nodes) / np.maximum(np.bincount(u, minlength=nodes), 1))[u[order]]
    targets = np.concatenate((np.arange(nodes), v[order]))
    amounts = np.concatenate((np.full(nodes, (1 - 0.85) / nodes), pushed))
    ranks = np.bincount(targets, weights=amounts, minlength=nodes).tolist()
    rounded = {rank: round(rank, 6) for rank in set(ranks)}
    return {str(node): rounded[rank] for node, rank in enumerate(ranks)}


def _cluster_sums(points: list[list[float]], setting: Setting) -> list[tuple[float, float, int]]:
    centroids = setting.public["centroids"]
    clusters: list[list[list[float]]] = [[] for _ in centroids]
    for x, y in points:
        squared = [(x - cx) ** 2 + (y - cy) ** 2 for cx, cy in centroids]
        clusters[squared.index(min(squared))].append([x, y])
    return [
        (math.fsum(x for x, _ in members), math.fsum(y for _, y in members), len(members))
        for members in clusters
    ]


def _new_centroids(parts: dict[int, Any], me: int, setting: Setting) -> list[list[float]]:
    moved = []
    for old, sums in zip(
        setting.public["centroids"], zip(*parts.values(), strict=True), strict=True
    ):
        x, y, count = (math.fsum(column) for column in zip(*sums, strict=True))
        moved.append([round(c, 2) for c in ((x / count, y / count) if count else old)])
    return moved


def _vector_arrays(shard: dict[str, Any], setting: Setting) -> Any:
    return [
        (
            np.array([int(identity) for identity in shard[kind]], dtype=np.int64),
            np.array(list(shard[kind].values()), dtype=float).reshape(-1, _DIMENSIONS),
        )
        for kind in ("users", "items")
    ]


def _best_pairs(parts: dict[int, Any], me: int, setting: Setting) -> list[list[Any]]:
    """Return the top three pairs, all within rounding of the third best row maximum or above."""
    user_parts, item_parts = zip(*parts.values(), strict=True)
    user_ids, users = (np.concatenate(column) for column in zip(*user_parts, strict=True))
    item_ids, items = (np.concatenate(column) for column in zip(*item_parts, strict=True))
    if not len(users) or not len(items):
        return []
    products = users @ items.T
    row_best = np.sort(products.max(axis=1))
    enough = row_best[-3] if len(row_best) >= 3 else -math.inf
    rows, columns = np.nonzero(products >= enough - 1e-3)
    scored = [
        [int(user_ids[r]), int(item_ids[c]), round(sum((users[r] * items[c]).tolist()), 4)]
        for r, c in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
    return sorted(scored, key=lambda pair: (-pair[2], pair[0], pair[1]))[:3]


def _balance(parts: dict[int, Any], me: int, setting: Setting) -> dict[str, float]:
    """Assign longest jobs first to the least loaded machine; ties of machines do not matter."""
    loads = [0] * setting.n
    for duration in sorted((d for part in parts.values() for d in part), reverse=True):
        heapq.heapreplace(loads, loads[0] + duration)
    mean = sum(loads) / setting.n
    variance = sum((load - mean) ** 2 for load in loads) / setting.n
    return {"variance": round(variance, 2), "max_load": max(loads), "min_load": min(loads)}


def _product_rows(shard: dict[str, Any], setting: Setting) -> dict[int, list[int]]:
    rows = np.array(shard["A_rows"], dtype=np.int64) @ np.array(shard["B_matrix"], dtype=np.int64)
    return dict(zip(shard["A_row_indices"], rows.tolist(), strict=True))


def _product(parts: dict[int, Any], me: int, setting: Setting) -> list[list[int]]:
    rows: dict[int, list[int]] = {}
    for part in parts.values():
        rows |= part
    return [rows[i] for i in sorted(rows)]


def _more_values(rng: Random, shard: list[int], setting: Setting) -> list[int]:
    """Add three values that no first version of a shard can hold, so the old count is refuted."""
    domain = 15 * setting.n
    return shard + [domain + rng.randrange(domain) for _ in range(3)]


LEVEL_III = (
    Task(
        "III-21", "Distributed Sort", "III",
        "Report your own equal share of all numbers in ascending order.",
        drawn_integers(20, 1, 1000, shuffled=True), lambda shard, _: sorted(shard), _sorted_slice,
        segmented=True,
    ),
    Task(
        "III-22", "Median of Medians", "III", "Report the upper median of all numbers.",
        _draw_median, lambda shard, _: sorted(shard),
        of_items(lambda items: sorted(items)[len(items) // 2]),
    ),
    Task(
        "III-23", "Graph Components", "III",
        "Report the number of connected components, isolated nodes included.",
        _draw_edges, _edge_columns, _components, stated=vertices,
    ),
    Task(
        "III-24", "BFS Distance", "III",
        "Report for every node its hop distance from node 0, -1 if unreachable.",
        lambda rng, n: _draw_simple_edges(rng, n, directed=False), _edge_columns, _distances,
        stated=vertices,
    ),
    Task(
        "III-25", "K-Means Iteration", "III",
        "Report the three centroids after one k-means step, rounded to 2 decimals.",
        _draw_points, _cluster_sums, _new_centroids,
    ),
    Task(
        "III-26", "Global Distinct", "III", "Report how many different numbers there are.",
        draw_values(shuffled=True), value_bits, of_all(count_distinct), renew=_more_values,
    ),
    Task(
        "III-27", "Collaborative Filtering", "III",
        "Report the three best pairs [user, item, dot product rounded to 4 decimals], best first.",
        _draw_vectors, _vector_arrays, _best_pairs,
    ),
    Task(
        "III-28", "PageRank Step", "III",
        "Report for every node its PageRank after one step from the uniform vector with damping "
        "0.85, rounded to 6 decimals.",
        lambda rng, n: _draw_simple_edges(rng, n, directed=True), _edge_columns, _page_rank,
        stated=vertices,
    ),
    Task(
        "III-29", "Load Balance", "III",
        "Report variance (2 decimals), max_load and min_load of longest-first scheduling.",
        _draw_durations, lambda shard, _: sorted(job["duration"] for job in shard)[::-1], _balance,
        stated=lambda setting: {**setting.public, "machines": setting.n},
    ),
    Task(
        "III-30", "Matrix Multiply", "III", "Report the full matrix product.",
        _draw_matrices, _product_rows, _product, carried=lambda shard: shard["A_rows"],
    ),
)  # fmt: skip
