"""What does the path of private workers cost where the worker itself is free?

    python -m benchmarks.workers

Plays the tasks of the paper's experiment with the teacher, without a worker and with the task's own
rule as one, in turns. A figure is processor time per episode, the best of so many; the last column
is their ratio, which should stay below 1.3.
"""

from __future__ import annotations

import argparse
import time

import waggle
from waggle.cli import console

TASKS = ("swarmbench/pursuit", "silo/II-16", "silo/III-26")


def seconds(task: str, n: int, worker: str) -> float:
    """Return processor seconds of one episode."""
    start = time.process_time()
    waggle.run(task, "expert", n=n, seed=10_000, worker=worker)
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=32, help="agents")
    parser.add_argument("--repeats", type=int, default=7, help="episodes of each kind")
    asked = parser.parse_args()
    rows = []
    for task in TASKS:
        played = [
            [seconds(task, asked.n, kind) for kind in ("", "native")] for _ in range(asked.repeats)
        ]
        bare, hired = (min(times) for times in zip(*played, strict=True))
        rows.append((task, f"{bare:.3f}", f"{hired:.3f}", f"{hired / bare:.2f}"))
    headings = ("task", "without, s", "with, s", "ratio")
    console.table(f"Private workers, N = {asked.n}, expert", headings, rows)


if __name__ == "__main__":
    main()
