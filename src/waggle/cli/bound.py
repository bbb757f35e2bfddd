"""`waggle bound …`: what schedules without a law reach on the same cases, as ceilings."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from waggle.cli import console
from waggle.core.errors import ConfigError

DEVELOPMENT_SEED = 10_000


def silo(
    *tasks: str,
    n: Annotated[tuple[int, ...], Parameter(name=("-n", "--n"), negative="")] = (16, 32, 64, 128),
    rounds: int = 9,
    seed: int = DEVELOPMENT_SEED,
    seeds: int = 5,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """What information flow allows on Silo.

    For the same cases and contact graphs that `waggle run silo/…` plays: coverage, share of nodes
    that know everything, mean and strict success S of unlimited flooding, round-robin, random port,
    oracle-greedy and edge-coloured exchange after R rounds. Example:

    `waggle bound silo III-26 -n 32 -n 64`

    Args:
        tasks: Silo tasks such as III-26; all thirty if unset.
        n: Swarm sizes; repeat the option for several.
        rounds: Rounds of exchange.
        seed: The first seed.
        seeds: How many seeds in a row.
        json: Print one JSON object instead of text.
    """
    from waggle import plugins
    from waggle.substrates.silo.ceilings import LEVELS, ceiling_rows

    if min(rounds, seeds, *n) < 1:
        raise ConfigError("-n, --rounds and --seeds must be at least 1")
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
