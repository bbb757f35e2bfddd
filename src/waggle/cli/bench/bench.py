"""`waggle bench …`: speed on this machine, next to what is asked for."""

from __future__ import annotations

from dataclasses import asdict

from waggle.cli import console
from waggle.cli.flags import Flag, Size
from waggle.core.errors import ConfigError


def runtime(
    *,
    repeats: int = 3,
    largest: int = 10_000,
    json: Flag = False,
) -> None:
    """Cost of the runtime per local update.

    Everything but the law (view, canon, admission, transport, expiry, record) on `beacon` with the
    heuristic law, in processor time of one core: at N = 64 with decisions in shape and as text, and
    at N = 100, 1,000 and 10,000. The slope is the exponent of total cost against N; 1 is linear.

    Args:
        repeats: How often each size below the largest is measured; the best counts.
        largest: The largest swarm; 10,000 is the one the limit speaks of.
        json: Print one JSON object instead of text.
    """
    from waggle.testing.bench_runtime import LIMIT_RATIO, LIMIT_US, bench_runtime

    if repeats < 1 or largest < 200:
        raise ConfigError("--repeats must be at least 1 and --largest at least 200")
    costs = bench_runtime(repeats=repeats, large=largest)
    cells = [*costs.reference, *costs.growth]
    if json:
        rows = [asdict(cost) for cost in cells]
        console.dump({"costs": rows, "ratio": costs.ratio, "slope": costs.slope})
        return
    table = [
        (c.n, "text" if c.text else "in shape", c.updates, c.microseconds, c.wall) for c in cells
    ]
    columns = ("N", "decodes", "local updates", "µs per update", "wall µs")
    console.table("Everything but the law", columns, table, right=2)
    worst = max(c.microseconds for c in costs.reference)
    console.say(
        f"N = 64: {worst:.0f} µs at most; limit {LIMIT_US:.0f}: {_verdict(worst, LIMIT_US)}"
    )
    small, large = costs.growth[0].n, costs.growth[-1].n
    console.say(
        f"N = {large:,} over N = {small:,}: {costs.ratio:.2f} per update; "
        f"limit {LIMIT_RATIO}: {_verdict(costs.ratio, LIMIT_RATIO)}"
    )
    console.say(f"slope: total cost grows as N^{costs.slope:.3f}")


def silo(
    *tasks: str,
    law: str = "heuristic",
    n: Size = 64,
    repeats: int = 1,
    json: Flag = False,
) -> None:
    """Seconds of a whole Silo episode.

    Processor time of one core for nine rounds of each task, opening and scoring included.

    Args:
        tasks: Silo tasks such as III-26; all thirty if unset.
        law: The law that plays.
        n: Agents in the swarm.
        repeats: How often each task is played; the best counts.
        json: Print one JSON object instead of text.
    """
    from waggle import plugins
    from waggle.testing.bench_silo import LIMIT_SECONDS, silo_speed

    if min(repeats, n) < 1:
        raise ConfigError("--repeats and -n must be at least 1")
    named = [plugins.find_task(f"silo/{t.removeprefix('silo/')}").task for t in tasks]
    chosen = named or list(plugins.get_substrate("silo").tasks)
    speed = silo_speed(law, n, chosen, repeats)
    if json:
        console.dump({**asdict(speed), "mean": speed.mean})
        return
    console.table(f"Silo, N = {n}, law {law}", ("task", "seconds"), speed.seconds.items())
    limited = (n, law) == (64, "heuristic")
    limit = f"; limit {LIMIT_SECONDS}: {_verdict(speed.mean, LIMIT_SECONDS)}" if limited else ""
    console.say(f"mean of {len(chosen)}: {speed.mean:.3f} s{limit}")


def _verdict(value: float, limit: float) -> str:
    return "met" if value <= limit else "MISSED"
