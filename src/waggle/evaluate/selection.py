"""A part of a plan: some methods, tasks, populations, or the first seeds.

What is left out may be played later, elsewhere, into the same run directory: ids do not depend on
the selection. Seeds are whole units: a table counts one once all its tasks are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec

from waggle.core.errors import ConfigError, suggest
from waggle.evaluate.plan import Cell


def select(
    plan: Sequence[Cell],
    *,
    methods: Sequence[str] = (),
    tasks: Sequence[str] = (),
    n: Sequence[int] = (),
    seeds: int | None = None,
) -> list[Cell]:
    """Return the chosen cells in the order of the plan; an empty choice takes all.

    Args:
        plan: the cells.
        methods: names of methods, or patterns of them such as `expert*`.
        tasks: task names, or patterns of them such as `silo/*`.
        n: population sizes.
        seeds: how many seeds of each setting, the smallest first.

    Raises:
        ConfigError: for a choice that names nothing in the plan.
    """
    known = list(dict.fromkeys(cell.method for cell in plan))
    for name in methods:
        if not any(fnmatchcase(method, name) for method in known):
            raise ConfigError(
                f"--methods: {name!r} is not in the plan{suggest(name, known)}; "
                f"use some of {', '.join(known)}"
            )
    chosen = [
        cell
        for cell in plan
        if (not methods or any(fnmatchcase(cell.method, name) for name in methods))
        and (not n or cell.case.n in n)
        and (not tasks or any(fnmatchcase(_task(cell), pattern) for pattern in tasks))
    ]
    if seeds is not None:
        chosen = _first_seeds(chosen, seeds)
    if not chosen:
        raise ConfigError("no cell is left; choose fewer of --methods, --tasks, --n and --seeds")
    return chosen


def by_seed(plan: Sequence[Cell]) -> list[Cell]:
    """Return the cells with the first seed of every setting first, then the second, and so on.

    An interrupted run then has whole seeds to show, not whole tasks.
    """
    settings = [_setting(cell) for cell in plan]
    seeds: dict[str, set[int]] = {}
    for cell, setting in zip(plan, settings, strict=True):
        seeds.setdefault(setting, set()).add(cell.case.seed)
    place = {
        (setting, seed): k for setting, own in seeds.items() for k, seed in enumerate(sorted(own))
    }
    ranked = sorted(
        zip(plan, settings, strict=True), key=lambda pair: place[pair[1], pair[0].case.seed]
    )
    return [cell for cell, _ in ranked]


def _task(cell: Cell) -> str:
    return f"{cell.case.substrate}/{cell.case.task}"


def _first_seeds(plan: Sequence[Cell], count: int) -> list[Cell]:
    """Keep the smallest seeds of every setting."""
    if count < 1:
        raise ConfigError("--seeds must be at least 1")
    found: dict[str, set[int]] = {}
    for cell in plan:
        found.setdefault(_setting(cell), set()).add(cell.case.seed)
    kept = {setting: set(sorted(seeds)[:count]) for setting, seeds in found.items()}
    return [cell for cell in plan if cell.case.seed in kept[_setting(cell)]]


def _setting(cell: Cell) -> str:
    """Name everything about a cell but its seed."""
    case = msgspec.structs.replace(cell.case, seed=0)
    return msgspec.json.encode(msgspec.structs.replace(cell, case=case), order="sorted").decode()
