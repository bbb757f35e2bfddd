"""What physics allows: scores of ideal schedules on the same cases and graphs as an episode.

Realises tables C and D of the Silo study: a schedule says who sends to whom, knowledge is one
bitmask of positions per node, payload is unlimited, and the answer is the gold of what a node
holds after R rounds. Invariant: no schedule sees more than the sender's pre-round knowledge,
except `oracle-greedy`, which also sees what its neighbours hold and are being sent in this round
(that makes it a bound, not a law).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from statistics import fmean
from typing import NamedTuple

from waggle.core.errors import ConfigError
from waggle.substrates.silo.cases import Case, independent_case
from waggle.substrates.silo.graph import DEGREE, Graph, colour_edges, contact_graph
from waggle.substrates.silo.registry import TASKS
from waggle.substrates.silo.task import Level

Sends = Iterable[tuple[int, int]]
Schedule = Callable[[int, Sequence[int]], Sends]
"""(round, knowledge of every node) -> the (sender, receiver) pairs of that round."""

LEVELS: tuple[Level, ...] = ("I", "II", "III")


class Reach(NamedTuple):
    """How far information got in one episode."""

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


def episode_graph(task_id: str, n: int, seed: int) -> Graph:
    """The contact graph of (task, n, seed), shared by episodes and ceilings."""
    return contact_graph(n, Random(f"silo/graph/{task_id}/{n}/{seed}"))


def _silent(graph: Graph, rng: Random) -> Schedule:
    return lambda _, known: ()


def _flooding(graph: Graph, rng: Random) -> Schedule:
    pairs = [(u, v) for u, own in enumerate(graph) for v in own]
    return lambda _, known: pairs


def _round_robin(graph: Graph, rng: Random) -> Schedule:
    return lambda t, known: [(u, own[t % DEGREE]) for u, own in enumerate(graph)]


def _random_port(graph: Graph, rng: Random) -> Schedule:
    return lambda _, known: [(u, rng.choice(own)) for u, own in enumerate(graph)]


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


SCHEDULES: dict[str, Callable[[Graph, Random], Schedule]] = {
    "silent": _silent,
    "flooding": _flooding,
    "round-robin": _round_robin,
    "random-port": _random_port,
    "oracle-greedy": _oracle_greedy,
    "edge-coloured": _coloured_exchange,
}


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


def success_of(case: Case, known: Sequence[int]) -> float:
    """S when every node answers with the gold of what it holds."""
    return sum(_right(case, node, mask) for node, mask in enumerate(known)) / len(known)


def _right(case: Case, node: int, mask: int) -> bool:
    needed = case.task.needs(node, case.setting.n)
    return mask & needed == needed or bool(case.answer(mask, node) == case.golds[node])


def ceiling_row(
    schedule: str, task_ids: Sequence[str], n: int, seeds: Sequence[int], rounds: int
) -> CeilingRow:
    """The mean of one schedule over the given tasks and seeds."""
    if schedule not in SCHEDULES:
        raise ConfigError(f"schedule {schedule!r} not found; use one of {', '.join(SCHEDULES)}")
    reaches: list[Reach] = []
    scores: list[tuple[Level, float]] = []
    for task_id in task_ids:
        for seed in seeds:
            reach = _reach(schedule, task_id, n, seed, rounds)
            case = independent_case(task_id, n, seed)
            reaches.append(reach)
            scores.append((case.task.level, success_of(case, reach.known)))
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


def _reach(schedule: str, task_id: str, n: int, seed: int, rounds: int) -> Reach:
    graph = episode_graph(task_id, n, seed)
    rng = Random(f"silo/{schedule}/{task_id}/{n}/{seed}")
    return spread(graph, SCHEDULES[schedule](graph, rng), rounds)


def ceiling_rows(
    sizes: Sequence[int],
    seeds: Sequence[int],
    rounds: int = 9,
    task_ids: Sequence[str] = tuple(TASKS),
    schedules: Sequence[str] = tuple(SCHEDULES),
) -> list[CeilingRow]:
    """The table of `waggle bound silo`: every schedule at every size."""
    return [
        ceiling_row(schedule, task_ids, n, seeds, rounds) for n in sizes for schedule in schedules
    ]
