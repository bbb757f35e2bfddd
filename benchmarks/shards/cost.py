"""What would N agents cost? Arithmetic on measured rates: `python -m benchmarks.shards cost`.

No episode is played. Every figure is *extrapolated* from measurements of the other commands, given
as options: decisions per second and GPU (`throughput`), rounds (`consensus`), bytes between shards
(`traffic`), bytes of state per agent (`waggle run --engine ray`, the peak of its processes).
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.cli import console


def cost(
    *, sizes: Sequence[int] = (10**6, 10**7, 10**9), decisions_per_s: float = 11_900.0,
    rounds: int = 20, host_microseconds: float = 100.0, state_bytes: float = 4_000.0,
    crossing_bytes: float = 2.6,
) -> None:  # fmt: skip
    """Print GPU hours, core hours, memory and traffic of one episode, extrapolated.

    Args:
        sizes: Numbers of agents.
        decisions_per_s: Decisions per second of one GPU.
        rounds: Rounds of one episode.
        host_microseconds: Core time per update for everything but the law.
        state_bytes: Bytes of memory per agent.
        crossing_bytes: Bytes between shards, per agent and round.
    """
    rows = []
    for n in sizes:
        updates = n * rounds
        rows.append(
            (f"{n:,}", f"{updates:.0e}", f"{updates / decisions_per_s / 3600:,.1f}",
             f"{updates * host_microseconds / 1e6 / 3600:,.1f}", f"{n * state_bytes / 1e9:,.0f}",
             f"{n * crossing_bytes / 1e6:,.1f}")
        )  # fmt: skip
    columns = (
        "N", "decisions", "GPU hours", "core hours", "GB of state", "MB between shards a round",
    )  # fmt: skip
    title = f"{rounds} rounds at {decisions_per_s:,.0f} decisions/s and GPU, extrapolated"
    console.table(title, columns, rows)
