"""`waggle bench swarmbench`: rounds per second beside the official environment."""

from __future__ import annotations

from waggle.cli import console
from waggle.cli.flags import Flag
from waggle.core.errors import ConfigError


def swarmbench(*, seconds: float = 1.0, json: Flag = False) -> None:
    """Rounds per second of the five worlds.

    Random actions, one core, world step and scoring; beside it the rate with every agent's view
    built, what the official environment reached, and the ratio. At N = 64 a ratio of 200 is asked
    for (Flocking 100).

    Args:
        seconds: Processor time spent on each figure.
        json: Print one JSON object instead of text.
    """
    import msgspec

    from waggle.testing.bench_swarmbench import measure

    if not 0 < seconds <= 60:
        raise ConfigError("--seconds must be above 0 and at most 60")
    rows = measure(seconds=seconds)
    if json:
        console.dump({"speeds": [{**msgspec.to_builtins(r), "ratio": r.ratio} for r in rows]})
        return
    verdicts = {True: "met", False: "MISSED", None: ""}
    table = [
        (r.task, r.n, f"{r.side}x{r.side}", r.rate, r.viewed, r.official, r.ratio, verdicts[r.met])
        for r in rows
    ]
    columns = ("task", "N", "map", "rounds/s", "with views", "official", "ratio", "limit")
    console.table("SwarmBench world, one core", columns, table)
