"""Select the cells of a plan that are played, order them and estimate their cost.

Cells that are left out may be played later or elsewhere, into the same run directory: ids do not
depend on the selection. Seeds are kept whole, since a table counts a seed once all its tasks are
finished. Costs decide in which process and when a cell is played, never which cells are played.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

import msgspec

from waggle import plugins
from waggle.core.errors import ConfigError, WaggleError, suggest
from waggle.core.protocols import Case
from waggle.evaluate.plan import Cell, Key

WEIGHTS: Mapping[str, float] = {"agentsnet": 6.0, "silo": 1.6, "swarmbench/synchronization": 2.5}
"""Tokens that `nano` reads and writes per decision, relative to Pursuit; by task, else by
substrate, else 1. Measured on the cells of the primary matrix and of AgentsNet."""


def select(
    plan: Sequence[Cell],
    *,
    methods: Sequence[str] = (),
    tasks: Sequence[str] = (),
    n: Sequence[int] = (),
    seeds: int | None = None,
) -> list[Cell]:
    """Return the selected cells in the order of the plan; an empty option selects all.

    Methods and tasks may be patterns such as `silo/*`. `seeds` is the number of seeds taken of each
    setting, the smallest first.

    Raises:
        ConfigError: if an option matches nothing in the plan.
    """
    _require("--methods", methods, [cell.method for cell in plan])
    _require("--tasks", tasks, list(map(_task, plan)))
    sizes = sorted({cell.case.n for cell in plan})
    _require("--n", list(map(str, n)), list(map(str, sizes)))
    if seeds is not None and seeds < 1:
        raise ConfigError("--seeds must be at least 1")
    chosen = [
        cell
        for cell in plan
        if (not methods or any(fnmatchcase(cell.method, name) for name in methods))
        and (not n or cell.case.n in n)
        and (not tasks or any(fnmatchcase(_task(cell), pattern) for pattern in tasks))
    ]
    if seeds is not None:
        chosen = [cell for cell, rank in _seed_ranks(chosen) if rank < seeds]
    if not chosen:
        raise ConfigError("no cell is left; choose fewer of --methods, --tasks, --n and --seeds")
    return chosen


def _require(option: str, wanted: Sequence[str], plan: Sequence[str]) -> None:
    """Refuse a name or pattern that matches nothing in the plan."""
    known = list(dict.fromkeys(plan))
    for name in wanted:
        if not any(fnmatchcase(each, name) for each in known):
            raise ConfigError(
                f"{option}: {name!r} is not in the plan{suggest(name, known)}; "
                f"use some of {', '.join(known)}"
            )


def by_seed(plan: Sequence[Cell]) -> list[Cell]:
    """Return the cells with the first seed of every setting first, then the second, and so on.

    An interrupted run then has complete seeds rather than complete tasks.
    """
    return [cell for cell, _ in sorted(_seed_ranks(plan), key=lambda pair: pair[1])]


def _seed_ranks(plan: Sequence[Cell]) -> list[tuple[Cell, int]]:
    """Return every cell with the rank of its seed within its setting, the smallest first."""
    settings = [_setting(cell) for cell in plan]
    seeds: dict[str, set[int]] = {}
    for cell, setting in zip(plan, settings, strict=True):
        seeds.setdefault(setting, set()).add(cell.case.seed)
    ranks = {
        setting: {seed: rank for rank, seed in enumerate(sorted(own))}
        for setting, own in seeds.items()
    }
    pairs = zip(plan, settings, strict=True)
    return [(cell, ranks[setting][cell.case.seed]) for cell, setting in pairs]


def _task(cell: Cell) -> str:
    return f"{cell.case.substrate}/{cell.case.task}"


def _setting(cell: Cell) -> str:
    """Return a key of everything in a cell but its seed."""
    case = msgspec.structs.replace(cell.case, seed=0)
    return msgspec.json.encode(msgspec.structs.replace(cell, case=case), order="sorted").decode()


def decisions(cell: Cell) -> int:
    """Return the number of local updates of a cell if its episode reaches its horizon.

    A case that cannot be opened counts as 0; it fails when it is played.
    """
    case = msgspec.structs.replace(cell.case, seed=0)  # the horizon is the same for all seeds
    return case.n * _rounds(msgspec.json.encode(case, order="sorted"))


@cache
def _rounds(case: bytes) -> int:
    """Return the updates per node of a case, given as JSON text."""
    opened = msgspec.json.decode(case, type=Case)
    try:
        return plugins.get_substrate(opened.substrate).open(opened).rounds
    except WaggleError:
        return 0


def cost(cell: Cell) -> float:
    """Return the estimated cost of a cell, in decisions of Pursuit."""
    weight = WEIGHTS.get(_task(cell), WEIGHTS.get(cell.case.substrate, 1.0))
    return weight * decisions(cell)


class Count(NamedTuple):
    """The workload of one method of a plan."""

    method: str
    cells: int
    decisions: int
    finished: int
    """Cells that are already finished."""
    left: int
    """Decisions of the unfinished cells."""


def counts(plan: Sequence[Cell], finished: Container[Key]) -> list[Count]:
    """Return the workload of every method, in the order of the plan, and then the total."""
    found: dict[str, list[Cell]] = {}
    for cell in plan:
        found.setdefault(cell.method, []).append(cell)
    return [_count(name, cells, finished) for name, cells in [*found.items(), ("all", plan)]]


def _count(method: str, cells: Sequence[Cell], finished: Container[Key]) -> Count:
    left = [cell for cell in cells if cell.key not in finished]
    done = len(cells) - len(left)
    return Count(method, len(cells), sum(map(decisions, cells)), done, sum(map(decisions, left)))
