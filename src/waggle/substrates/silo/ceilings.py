"""Ceilings: scores of ideal schedules on the same cases and graphs as an episode.

Realises tables C and D of the Silo study: a schedule selects sender-receiver pairs, knowledge is
one bitmask of positions per node, payload is unlimited, and the answer is the gold of the shards a
node holds after R rounds. Invariant: no schedule sees more than the sender's knowledge before the
round, except `oracle-greedy`, which also sees what its neighbours hold and are being sent in this
round; it is a bound, not a law.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from statistics import fmean
from typing import NamedTuple

from waggle.core.errors import ConfigError
from waggle.substrates.silo.cases import (
    DEGREE,
    TASKS,
    Graph,
    episode_graph,
    independent_case,
)
from waggle.substrates.silo.task import Level

Sends = Iterable[tuple[int, int]]
Schedule = Callable[[int, Sequence[int]], Sends]
"""(round, knowledge of every node) -> the (sender, receiver) pairs of that round."""

_RESTARTS = 20
LEVELS: tuple[Level, ...] = ("I", "II", "III")


class Reach(NamedTuple):
    """How far information spread in one episode."""

    known: tuple[int, ...]
    """Bitmask of positions per node."""
    coverage: float
    complete: float


class CeilingRow(NamedTuple):
    """One line of `waggle bound silo`: means over tasks and seeds, shares in 0..1."""

    schedule: str
    n: int
    rounds: int
    cases: int
    coverage: float
    complete: float
    success: float
    strict: float
    by_level: tuple[float | None, float | None, float | None]
    """Mean S of levels I, II and III; None for a level without a task in the selection."""


def _oracle_greedy(graph: Graph, rng: Random) -> Schedule:
    def sends(_: int, known: Sequence[int]) -> Iterator[tuple[int, int]]:
        after = list(known)
        for u, own in enumerate(graph):
            gain = [((known[u] & ~after[v]).bit_count(), rng.random(), v) for v in own]
            receiver = max(gain)[2]
            after[receiver] |= known[u]
            yield u, receiver

    return sends


def _coloured_exchange(graph: Graph, rng: Random) -> Schedule:
    mates = colour_edges(graph, rng)
    return lambda t, known: enumerate(mates[t % DEGREE])


def _blind_start(graph: Graph, rng: Random) -> Schedule:
    """Send the first frame at random, as anonymous nodes must, then run the coloured exchange."""
    mates = colour_edges(graph, rng)

    def sends(t: int, known: Sequence[int]) -> Iterator[tuple[int, int]]:
        for u, own in enumerate(graph):
            yield u, mates[t % DEGREE][u] if t else rng.choice(own)

    return sends


SCHEDULES: dict[str, Callable[[Graph, Random], Schedule]] = {
    "silent": lambda graph, rng: lambda t, known: (),
    "flooding": lambda graph, rng: (
        lambda t, known: [(u, v) for u, own in enumerate(graph) for v in own]
    ),
    "round-robin": lambda graph, rng: (
        lambda t, known: [(u, own[t % DEGREE]) for u, own in enumerate(graph)]
    ),
    "random-port": lambda graph, rng: (
        lambda t, known: [(u, rng.choice(own)) for u, own in enumerate(graph)]
    ),
    "oracle-greedy": _oracle_greedy,
    "edge-coloured": _coloured_exchange,
    "blind-start": _blind_start,
}
"""Ideal schedules by name; each is built for one graph and one random stream."""


def spread(graph: Graph, schedule: Schedule, rounds: int) -> Reach:
    """Run a schedule for `rounds` synchronous rounds from one shard per node."""
    n = len(graph)
    known = [1 << node for node in range(n)]
    for t in range(rounds):
        after = known.copy()
        for sender, receiver in schedule(t, known):
            after[receiver] |= known[sender]
        known = after
    held = [mask.bit_count() for mask in known]
    return Reach(tuple(known), sum(held) / n**2, held.count(n) / n)


def ceiling_row(
    schedule: str, task_ids: Sequence[str], n: int, seeds: Sequence[int], rounds: int
) -> CeilingRow:
    """Return the means of one schedule over the given tasks and seeds."""
    if schedule not in SCHEDULES:
        raise ConfigError(f"schedule {schedule!r} not found; use one of {', '.join(SCHEDULES)}")
    reaches: list[Reach] = []
    scores: list[tuple[Level, float]] = []
    for task_id in task_ids:
        for seed in seeds:
            graph = episode_graph(task_id, n, seed)
            sends = SCHEDULES[schedule](graph, Random(f"silo/{schedule}/{task_id}/{n}/{seed}"))
            reach = spread(graph, sends, rounds)
            case = independent_case(task_id, n, seed)
            reaches.append(reach)
            right = sum(case.is_right(mask, node) for node, mask in enumerate(reach.known))
            scores.append((case.task.level, right / n))
    levels = [[s for level, s in scores if level == wanted] for wanted in LEVELS]
    one, two, three = (fmean(values) if values else None for values in levels)
    return CeilingRow(
        schedule, n, rounds, len(scores),
        coverage=fmean(reach.coverage for reach in reaches),
        complete=fmean(reach.complete for reach in reaches),
        success=fmean(s for _, s in scores),
        strict=fmean(s == 1 for _, s in scores),
        by_level=(one, two, three),
    )  # fmt: skip


def ceiling_rows(
    sizes: Sequence[int],
    seeds: Sequence[int],
    rounds: int = 9,
    task_ids: Sequence[str] = tuple(TASKS),
    schedules: Sequence[str] = tuple(SCHEDULES),
) -> list[CeilingRow]:
    """Return the table of `waggle bound silo`: every schedule at every size."""
    return [
        ceiling_row(schedule, task_ids, n, seeds, rounds) for n in sizes for schedule in schedules
    ]


def colour_edges(graph: Graph, rng: Random) -> list[list[int]]:
    """Return, for each of three colours, the neighbour that every node sends to.

    Almost every cubic graph has a proper edge colouring, and the walk below finds one: partners
    then send to each other. In a graph without one (a graph with a bridge), the ends of an
    uncoloured edge send along it in the round in which they have no partner.
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
    """Colour the edges in turn; if no colour fits, swap a chain or else move the gap elsewhere.

    Returns the partner by colour for each node.
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
    """Colour the edge u-v, swapping a two-coloured chain at v if needed; return if it worked."""
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
