"""`waggle list`: substrates, tasks, laws, peer methods, private workers and metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any, Literal

from msgspec.structs import replace

from waggle import plugins
from waggle.cli import console
from waggle.cli.options import AsJson, Flag, described
from waggle.core.protocols import Case, World
from waggle.core.worker import Workplace
from waggle.core.world import WorldBase
from waggle.plugin_files import FAULTS, raised
from waggle.runtime.worlds import check_world

N = 16
"""Agents of the worlds that are opened to describe their tasks."""
Kind = Literal["substrates", "tasks", "laws", "methods", "workers", "metrics"]
Row = Mapping[str, Any]


def show(kind: Kind | None = None, /, *, verbose: Flag = False, json: AsJson = False) -> None:
    """List substrates, tasks, laws, peer methods, private workers and metrics.

    `waggle run` accepts the names under Tasks, or the part after the slash if it is unique. Plugins
    that cannot be loaded are listed with the reason.

    Args:
        kind: What to list: substrates, tasks, laws, methods, workers or metrics. Default: all of
            them.
        verbose: Show the options of every law with their descriptions, and of every task its goal,
            its rounds and what it takes.
    """
    wanted = [kind] if kind else list(_READERS)
    found = {name: _READERS[name]() for name in wanted}
    if verbose and "laws" in found:
        found["laws"] = [
            {**row, "options": [each._asdict() for each in described(row["name"])]}
            if row["options"]
            else row
            for row in found["laws"]
        ]
    if verbose and "tasks" in found:
        found["tasks"] = [
            {**row, "details": [_detail(name) for name in row["tasks"]]} for row in found["tasks"]
        ]
    if json:
        console.dump(found)
        return
    for index, (name, rows) in enumerate(found.items()):
        if index:
            console.say("")
        if verbose and name == "laws":
            _print_laws(rows)
        elif verbose and name == "tasks":
            _print_tasks(rows)
        else:
            _print(name.capitalize(), rows)


def _print_laws(rows: list[Row]) -> None:
    """Print every law with its options under it, a line each."""
    console.say("Laws")
    for row in rows:
        console.say(f"{row['name']}: {row['about']}")
        for each in row["options"]:
            default = f" [default: {each['default']}]" if each["default"] else ""
            console.say(f"  {each['option']}: {each['meaning']}{default}")


def _print_tasks(rows: list[Row]) -> None:
    """Print every task with its goal, and under it its rounds and what it takes."""
    console.say(f"Tasks, with their rounds for {N} agents")
    for row in rows:
        for each in row["details"]:
            console.say(f"{each['name']}: {each['goal']}")
            if each["rounds"]:
                takes = ", ".join(each["takes"]) or "none of --rounds, --shock, --worker"
                console.say(f"  {each['rounds']} rounds; takes {takes}")
        options = list(plugins.get_substrate(row["substrate"]).options.model_fields)
        if options:
            listed = ", ".join(f"--{row['substrate']}.{o.replace('_', '-')}" for o in options)
            console.say(f"  every task of {row['substrate']} takes {listed}")


def _print(title: str, rows: list[Row]) -> None:
    if not rows:
        console.say(f"{title}: none")
        return
    columns = [name for name in rows[0] if name not in ("options", "from")]
    cells = [[_text(row, name) for name in columns] for row in rows]
    console.table(title, columns, cells, right=len(columns))
    kind = title.lower().removesuffix("s")
    if title == "Methods":
        console.say("`waggle fit NAME` trains those that say yes.")
    if any(row.get("options") for row in rows):
        console.say(f"An option is given as --{kind}.OPTION VALUE.")


def _text(row: Row, column: str) -> str:
    """Return one cell; a description is followed by its package and its options."""
    value = row[column]
    text = " ".join(value) if isinstance(value, list) else str(value)
    if column == "about" and row.get("from", "waggle") != "waggle":
        text += f" From {row['from']}."
    if column == "about" and row.get("options"):
        text += f" Options: {', '.join(each.partition('.')[2] for each in row['options'])}."
    return text


def _tasks() -> list[Row]:
    by_substrate: dict[str, list[str]] = {}
    for task in plugins.tasks():
        by_substrate.setdefault(task.substrate, []).append(task.name)
    return [{"substrate": name, "tasks": tasks} for name, tasks in by_substrate.items()]


def _detail(name: str) -> Row:
    """Describe a task by its opened world: goal, rounds, and which options of `run` it takes."""
    task = plugins.find_task(name)
    case = Case(task.substrate, task.task, N, 0)
    try:
        world = plugins.get_substrate(task.substrate).open(case)
        check_world(world, task.substrate)
    except FAULTS as error:
        return {"name": name, "goal": raised(error), "rounds": 0, "takes": []}
    longer, late = _opened(case, rounds=world.rounds + 1), _opened(case, shock=True)
    takes = {
        "--rounds": longer is not None and longer.rounds != world.rounds,
        "--shock": late is not None and getattr(type(late), "shock", None) is not WorldBase.shock,
        "--worker": isinstance(world, Workplace),
    }
    return {
        "name": name,
        "goal": re.split(r"(?<=[.!?])\s", world.contract.goal, maxsplit=1)[0],
        "rounds": world.rounds,
        "takes": [option for option, taken in takes.items() if taken],
    }


def _opened(case: Case, **changes: Any) -> World | None:
    """Return the world of a changed case; None if the substrate refuses it."""
    try:
        return plugins.get_substrate(case.substrate).open(replace(case, **changes))
    except FAULTS:
        return None


def _laws() -> list[Row]:
    rows = _described("law")
    broken = plugins.broken("law")
    for row in rows:
        known = [] if row["name"] in broken else plugins.law_options(row["name"])
        row["options"] = [f"--law.{name.replace('_', '-')}" for name in known]
    return list(rows)


def _methods() -> list[Row]:
    from waggle.baselines.peers import METHODS

    return [
        {
            "name": name,
            "method": each.label,
            "designer": "central" if each.centralised else "none",
            "trained": "yes" if each.learner else "no",
            "rests on": f"{each.source}: {each.rests_on}",
        }
        for name, each in METHODS.items()
    ]


def _workers() -> list[Row]:
    from waggle.workers.hire import BUILT_IN, worker_options

    return [
        {
            "name": name,
            "about": _about(target),
            "options": [f"--worker.{key.replace('_', '-')}" for key in worker_options(name)],
        }
        for name, target in BUILT_IN.items()
    ]


def _metrics() -> list[Row]:
    broken = plugins.broken("metric")
    usable = [plugins.get_metric(n) for n in plugins.names("metric") if n not in broken]
    rows: list[Row] = [{"name": m.name, "better": m.better, "unit": m.unit} for m in usable]
    return rows + [{"name": n, "better": "-", "unit": why} for n, why in broken.items()]


def _described(kind: Literal["substrate", "law"]) -> list[Any]:
    broken = plugins.broken(kind)
    return [
        {"name": e.name, "from": e.origin, "about": broken.get(e.name) or _about(e.target)}
        for e in plugins.entries(kind)
    ]


def _about(target: str) -> str:
    """Return the first line of a target's docstring."""
    module, _, attribute = target.partition(":")
    try:
        text = attrgetter(attribute)(import_module(module)).__doc__ or ""
    except AttributeError:  # registered by a decorator inside a function: nothing to look up
        return ""
    return str(text).strip().partition("\n")[0]


_READERS: dict[str, Callable[[], list[Row]]] = {
    "substrates": lambda: _described("substrate"),
    "tasks": _tasks,
    "laws": _laws,
    "methods": _methods,
    "workers": _workers,
    "metrics": _metrics,
}
