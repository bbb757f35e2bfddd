"""The cost of a contact graph: traffic between shards, and rounds until all agree.

python -m benchmarks.shards traffic --n 10000
python -m benchmarks.shards consensus --sizes 100 --sizes 1000 --sizes 10000
python -m benchmarks.shards consensus --law nano --shards 12 --pool 4 --sizes 1000   # on a GPU
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from math import log10

from benchmarks.shards.episodes import AGREED, SEED, opened, play
from benchmarks.shards.processes import Processes
from waggle import plugins
from waggle.cli import console
from waggle.cli.options import LawOptions, make_law
from waggle.core.protocols import Case, Law
from waggle.shards.partition import crossing, owners

GRAPHS = ("rings", "cubic", "small-world", "geometric")


def traffic(*, n: int = 10_000, rounds: int = 12, shards: Sequence[int] = (2, 4, 16)) -> None:
    """Print the traffic between shards, by graph and partition."""
    rows, law = [], plugins.get_law("heuristic")
    for graph in GRAPHS:
        case = Case("beacon", "beacon", n, SEED, rounds, options={"graph": graph})
        for count in shards:
            grown, dealt = play(case, law, count), play(case, law, count, "dealt")
            rows.append(
                (graph, count, f"{grown.messages:.2f}", f"{grown.crossing:.1%}",
                 f"{dealt.crossing:.1%}", f"{grown.bytes:.1f}", f"{dealt.bytes:.1f}")
            )  # fmt: skip
    columns = (
        "graph", "shards", "messages per agent and round", "crossing, grown", "crossing, dealt",
        "bytes per agent and round, grown", "dealt",
    )  # fmt: skip
    console.table(f"beacon, N = {n:,}, {rounds} rounds", columns, rows, right=1)


def cuts(
    *, sizes: Sequence[int] = (1_000, 10_000, 100_000), shards: Sequence[int] = (2, 16)
) -> None:
    """Print the share of contacts between shards against N; no episode is played.

    Dealing agents to shards in turn would cut a share of 1 - 1 / shards.
    """
    rows = []
    for graph in GRAPHS:
        for n in sizes:
            world = opened(Case("beacon", "beacon", n, SEED, options={"graph": graph}))
            found = [crossing(world, owners(world, count)) for count in shards]
            rows.append((graph, f"{n:,}", *(f"{share:.1%}" for share in found)))
    console.table("Contacts between shards", ("graph", "N", *map(str, shards)), rows, right=1)


def consensus(
    *, law: str = "heuristic", law_options: LawOptions = None,
    sizes: Sequence[int] = (100, 1_000, 10_000), graphs: Sequence[str] = GRAPHS[1:],
    rounds: int = 40, seeds: int = 3, scouts: float = 0.25, shards: int = 1, pool: int = 1,
) -> None:  # fmt: skip
    """Print the number of rounds until 99 of 100 agents hold the right claim, against N.

    Args:
        law: The law that decides; its options follow as `--law.KEY VALUE`.
        sizes: Numbers of agents.
        graphs: The contact graphs.
        rounds: Maximum number of rounds.
        seeds: Episodes of every size and graph.
        scouts: The share of agents that see the beacon.
        shards: Processes that play the agents, for a law with weights.
        pool: Processes that hold a copy of a law with weights.
    """
    made = make_law(law, law_options)
    if not getattr(made, "batched", False):
        _consensus(made, None, sizes, graphs, rounds, seeds, scouts)
        return
    with Processes(law, partial(make_law, law, law_options), shards, pool) as group:
        group.loaded()
        _consensus(made, group, sizes, graphs, rounds, seeds, scouts)


def _consensus(
    law: Law, group: Processes | None, sizes: Sequence[int], graphs: Sequence[str], rounds: int,
    seeds: int, scouts: float,
) -> None:  # fmt: skip
    """Play all episodes, and print each one as it ends, since large ones take long."""
    rows, seen = [], dict[str, list[tuple[float, int]]]()
    for n in sizes:
        row = [f"{n:,}"]
        for graph in graphs:
            cells = []
            for seed in range(SEED, SEED + seeds):
                options = {"graph": graph, "scouts": scouts}
                case = Case("beacon", "beacon", n, seed, rounds, options=options)
                played = play(case, law, group=group, agree=True)
                last, needed = played.scores[-1], played.rounds
                cells.append(f"none ({last:.3f})" if needed is None else str(needed))
                seen.setdefault(graph, []).extend([(log10(n), needed)] if needed else [])
                console.say(
                    f"N = {n:,}, {graph}, seed {seed}: {cells[-1]} rounds, "
                    f"{sum(played.seconds):.1f} s"
                )
            row.append(", ".join(cells))
        rows.append(row)
    if len(sizes) > 1:
        rows.append(["per tenfold N", *(_slope(seen[graph]) for graph in graphs)])
    title = f"{law.name}: rounds until {AGREED:.0%} agree, {scouts:.0%} scouts, a seed each"
    console.table(title, ("N", *graphs), rows, right=0)


def _slope(points: Sequence[tuple[float, int]]) -> str:
    """Return the additional rounds per tenfold swarm size, by least squares."""
    sizes, rounds = zip(*points, strict=True) if points else ((), ())
    if len(set(sizes)) < 2:
        return "unknown"
    return f"{statistics.linear_regression(sizes, rounds).slope:+.1f}"
