"""`waggle bound …`: upper bounds, what communication without a law reaches on the same cases."""

from __future__ import annotations

from waggle.cli import console
from waggle.cli.options import AsJson, Sizes, at_least_one
from waggle.core.seeds import Split


def silo(
    *tasks: str,
    n: Sizes = (16, 32, 64, 128),
    rounds: int = 9,
    seed: int = Split.DEVELOPMENT.start,
    seeds: int = 5,
    json: AsJson = False,
) -> None:
    """Compute information-flow bounds on Silo.

    Uses the cases and contact graphs of `waggle run silo/…`. Prints coverage, share of nodes that
    know everything, and mean and strict success S of unlimited flooding, round-robin, random-port,
    oracle-greedy and edge-coloured exchange after R rounds. Example:

    `waggle bound silo III-26 -n 32 -n 64`

    Args:
        tasks: Silo tasks such as III-26. Default: all thirty.
        n: Swarm sizes; repeat the option for several.
        rounds: Number of rounds of exchange.
        seed: First seed.
        seeds: Number of consecutive seeds.
    """
    from waggle import plugins
    from waggle.substrates.silo.ceilings import LEVELS, ceiling_rows

    at_least_one(n=min(n), rounds=rounds, seeds=seeds)
    named = [plugins.find_task(f"silo/{t.removeprefix('silo/')}").task for t in tasks]
    chosen = named or list(plugins.get_substrate("silo").tasks)
    rows = ceiling_rows(n, range(seed, seed + seeds), rounds, chosen)
    if json:
        console.dump({"rows": [row._asdict() for row in rows]})
        return
    console.say(f"{len(chosen)} tasks, {seeds} seeds from {seed}, {rounds} rounds; shares in 0..1")
    figures = ("coverage", "complete", "S", "strict S", *(f"S {level}" for level in LEVELS))
    cells = [
        (r.schedule, r.n, r.coverage, r.complete, r.success, r.strict, *r.by_level) for r in rows
    ]
    console.table(None, ("schedule", "N", *figures), cells)


def swarmbench(
    *tasks: str,
    n: Sizes = (16, 32),
    seed: int = Split.DEVELOPMENT.start,
    seeds: int = 20,
    rounds: int | None = None,
    map: int | None = None,
    json: AsJson = False,
) -> None:
    """Compute free-communication bounds on SwarmBench.

    Plays the episodes and private proposals of `waggle run swarmbench/…`, but an agent that knows a
    place reports it every round at no cost: to nobody (private-only), to contacts (late: received
    after the round, as messages are), from contact to contact, within 6 or 12 cells, to everyone.
    For foraging, also prints the bound of shortest paths for agents that never block each other;
    for synchronization, that of a shared clock without messages. Gains are paired with
    private-only.

    Example:
    `waggle bound swarmbench pursuit -n 16 --seeds 100`

    Args:
        tasks: SwarmBench tasks. Default: all five.
        n: Swarm sizes; repeat the option for several.
        seed: First seed.
        seeds: Number of consecutive seeds.
        rounds: Number of rounds. Default: the task's horizon.
        map: Side of the square map in cells. Default: 24 for more than ten agents.
    """
    from waggle.substrates.swarmbench.adapter import SwarmBench
    from waggle.testing.bound_swarmbench import sharing_table

    at_least_one(n=min(n), seeds=seeds)
    chosen = [task.removeprefix("swarmbench/") for task in tasks] or list(SwarmBench.tasks)
    rows = sharing_table(chosen, n, range(seed, seed + seeds), rounds, map)
    if json:
        named = [{**r._asdict(), "above_private": r.above_private._asdict()} for r in rows]
        console.dump({"rows": named})
        return
    console.say(f"{seeds} seeds from {seed}; gain over private-only with its paired 95 % interval")
    cells = [(r.task, r.reach, r.n, r.score, *r.above_private[:3]) for r in rows]
    console.table(None, ("task", "reach", "N", "score", "gain", "low", "high"), cells, right=2)
