"""How much overhead do private workers add when the worker itself costs nothing?

    python -m benchmarks.workers

Plays the tasks of the paper's experiment with the teacher, alternately without a worker and with
the task's own rule as the worker. A figure is processor time per episode, the best of `--repeats`;
the last column is their ratio, which should stay below 1.3.
"""

from __future__ import annotations

import argparse
import time

import waggle
from waggle.cli import console

TASKS = ("swarmbench/pursuit", "silo/II-16", "silo/III-26")


def seconds(task: str, n: int, worker: str) -> float:
    """Return the processor seconds of one episode."""
    start = time.process_time()
    waggle.run(task, "expert", n=n, seed=10_000, worker=worker)
    return time.process_time() - start


def main() -> None:
    """Run all measurements and print them."""
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
