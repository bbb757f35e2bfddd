"""How many decisions per second do users see, in one swarm and in a plan of many?

    waggle bench play --law nano --seeds 8 --processes 2

First the law is loaded and plays one swarm after the other, as in `waggle demo`; then it plays a
plan of tasks and seeds as `waggle eval` does. The times include runtime, worlds and records.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Law
from waggle.core.seeds import Split
from waggle.evaluate import executors, plan
from waggle.evaluate.rows import Row
from waggle.evaluate.runner import run_plan
from waggle.runtime.sync import Engine, native_order

TASKS = ("silo/III-26", "agentsnet/coloring", "swarmbench/pursuit")
DEMO = ("I-05", "III-26")
SEED = Split.DEVELOPMENT.start


class Played(NamedTuple):
    """The episodes and decisions of one measurement, and the time they took."""

    what: str
    episodes: int
    decisions: int
    seconds: float
    decisions_per_s: float


def bench_play(
    law: str = "nano", tasks: Sequence[str] = (), *, n: int = 16, seeds: int = 4,
    processes: int = 1, width: int | None = None,
) -> list[Played]:  # fmt: skip
    """Time loading a law, playing swarms one after the other, and playing a plan.

    Raises:
        ConfigError: for numbers below 1, an unknown law or task, and episodes that fail.
    """
    if min(n, seeds, processes) < 1:
        raise ConfigError("-n, --seeds and --processes must be at least 1")
    made = plugins.get_law(law)
    plans = f"{len(tasks or TASKS)} tasks x {seeds} seeds, {processes} processes"
    return [
        _timed("loading the law", lambda: _loaded(made)),
        _timed("one swarm after the other", lambda: _swarms(made, n)),
        _timed(plans, lambda: _plan(law, tasks or TASKS, n, seeds, processes, width)),
    ]


def _timed(what: str, work: Callable[[], list[int]]) -> Played:
    """Time a callable that returns the number of decisions of each episode."""
    start = time.perf_counter()
    decisions = work()
    seconds = time.perf_counter() - start
    return Played(what, len(decisions), sum(decisions), seconds, sum(decisions) / seconds)


def _loaded(law: Law) -> list[int]:
    getattr(law, "load", lambda: None)()
    return []


def _swarms(law: Law, n: int) -> list[int]:
    """Play the tasks of `waggle demo`, and return the decisions of each."""
    found = []
    for task in DEMO:
        case = Case("silo", task, n, SEED)
        world = plugins.get_substrate("silo").open(case)
        footer = Engine(world, law, case, order=native_order(law)).play()
        found.append(footer.counters["updates"])
    return found


def _plan(
    law: str, tasks: Sequence[str], n: int, seeds: int, processes: int, width: int | None
) -> list[int]:
    """Play tasks x seeds as `waggle eval` does, including loading the law."""
    block = {
        "methods": [law], "tasks": list(tasks), "n": [n], "seeds": {"start": SEED, "count": seeds},
    }  # fmt: skip
    recipe = {"title": "bench", "methods": {law: {"law": law}}, "blocks": [block]}
    rows: list[Row] = []
    with TemporaryDirectory(prefix="waggle-bench-") as folder:
        path = Path(folder) / "recipe.json"
        path.write_text(json.dumps(recipe), encoding="utf-8")
        run_plan(
            plan.cells(plan.load(path)), Path(folder), executors.make("process", processes),
            width=width, processes=processes, progress=rows.append,
        )  # fmt: skip
    failed = [row.error for row in rows if row.error]
    if failed:
        raise ConfigError(f"{len(failed)} episodes failed ({failed[0]}); choose other tasks")
    return [row.counters["updates"] for row in rows]
