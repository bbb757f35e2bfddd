"""Play tasks x laws x seeds from Python: in parallel, resumable, with objects as well as names.

    runs = waggle.sweep(["beacon", "silo/III-26"], ["nano", MyLaw()], range(10_000, 10_005))

A sweep is an evaluation whose recipe is built from its arguments. Episodes are played in this
process at first, and in worker processes once they take longer than starting those; laws that need
large batches play many episodes side by side. Objects are sent to the workers if they can be
pickled; otherwise this process plays them. An interruption keeps the finished episodes.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, NoReturn

from pydantic import ValidationError

from waggle import plugins
from waggle.api import screen
from waggle.api.given import (
    GivenLaw,
    GivenTask,
    LawLike,
    MetricLike,
    Prebuilt,
    TaskLike,
    among,
    find_law,
    find_metric,
    find_task,
)
from waggle.api.options import LAW, SETTINGS, WORKER, checked, mirror, sort_options
from waggle.api.progress import counting
from waggle.api.run import EngineName, count
from waggle.api.runs import Runs
from waggle.built_in import BUILT_IN, Kind
from waggle.core.errors import ConfigError
from waggle.core.order import Order
from waggle.evaluate import plan
from waggle.evaluate.episodes import law_of
from waggle.evaluate.executors import Inline, Job, Processes, Result
from waggle.evaluate.plan import Block, Cell, MethodSpec, Recipe
from waggle.evaluate.results import read_result
from waggle.evaluate.rows import Row, finished_rows, has_rows, read_rows
from waggle.evaluate.runner import open_run, run_plan
from waggle.workers.hire import worker_options

PATIENCE = 2.0
"""Seconds of playing in this process before workers are started, which takes one second."""
OBJECTS = "objects.json"
"""File of a run directory with a digest of every object used to play or to measure."""


def sweep(
    tasks: TaskLike | Sequence[TaskLike],
    laws: LawLike | Sequence[LawLike] | Mapping[str, LawLike],
    seeds: Iterable[int],
    *,
    n: int | Iterable[int] = 16,
    rounds: int | None = None,
    order: Order | None = None,
    engine: EngineName = "sync",
    shock: bool = False,
    worker: str = "",
    metrics: Sequence[MetricLike] = (),
    folder: str | Path | None = None,
    keep: bool = False,
    processes: int | None = None,
    progress: bool = True,
    **options: Any,
) -> Runs:
    """Play every task with every law on every seed, and return all episodes.

    Args:
        tasks: one task or a list of them, as `run` takes them; `silo/*` takes all of them.
        laws: one law or a list of them, as `run` takes them; a mapping gives them names.
        seeds: the seeds, such as range(10_000, 10_005).
        n: agents in the swarm, one number or several.
        rounds: local updates per agent; the tasks' own horizons if None.
        order: how views list their records; each law's own order if None.
        engine: `sync` or `event`.
        shock: whether late counterevidence is injected.
        worker: the source of private proposals, by name or as `FILE.py:callable`.
        metrics: metrics shown beside the score: names, or functions of one episode record.
        folder: a run directory; the same call plays only its missing episodes.
        keep: keep the record of every episode in the folder, for `Runs.episode`.
        processes: worker processes; one per core if None, none for 1.
        progress: show a bar on a terminal, a line in a notebook.
        **options: options of tasks, laws, worker and runtime, as `run` takes them; each goes to
            every part that has it.

    Raises:
        WaggleError: one line that names what was wrong and the fix.
    """
    given = _tasks(tasks)
    sources = _laws(laws)
    measures = _metrics(metrics)
    if keep and folder is None:
        raise ConfigError("records are kept in a folder; name one")
    lending: dict[Kind, dict[str, Any]] = {
        "substrate": {t.task.substrate: Prebuilt(t.substrate) for t in given if t.own},
        "law": {f"object:{name}": law.factory for name, law in sources.items() if law.own},
        "metric": {m.name: m for m in measures if m.name not in plugins.names("metric")},
    }
    law_of.cache_clear()  # a law of this name may have been another object before
    with ExitStack() as stack:
        stack.enter_context(plugins.lent(lending))
        stack.callback(law_of.cache_clear)
        recipe = _recipe(given, sources, seeds, n, rounds, order, engine, shock, worker, options)
        cells = plan.cells(recipe)
        where = None if folder is None else Path(folder)
        place = where or Path(stack.enter_context(TemporaryDirectory(prefix="waggle-")))
        objects = _objects(place, given, sources, measures, recipe)
        open_run(place, recipe)
        (place / OBJECTS).write_text(json.dumps(objects, indent=1), encoding="utf-8")
        _play(cells, place, keep=keep, processes=processes, quiet=not progress)
        rows = {row.key: row for row in read_rows(place)} if has_rows(place) else {}
    found = [rows[cell.key] for cell in cells if cell.key in rows]
    shown = [measure.name for measure in measures if measure.name != "score"]
    return Runs(found, recipe, planned=len(cells), metrics=shown, folder=where)


def _play(
    cells: Sequence[Cell], place: Path, *, keep: bool, processes: int | None, quiet: bool
) -> None:
    """Play the missing episodes of a folder; an interruption keeps the finished ones."""
    known = finished_rows(place)
    left = sum(cell.key not in known for cell in cells)
    with counting("episodes", left, quiet=quiet) as step:

        def finished(row: Row) -> None:
            step(f"{row.method} {row.task} seed {row.seed}", failed=bool(row.error))

        try:
            run_plan(
                cells, place, Spread(processes), keep=keep, progress=finished, left_out=_refuse
            )
        except KeyboardInterrupt:
            screen.note("interrupted; the episodes that are finished are kept")


def _refuse(methods: Sequence[str], reason: str) -> NoReturn:
    what, again, _ = reason.partition("; --again")  # a sweep does not play finished rows again
    raise ConfigError(f"law {methods[0]!r}: {what}; {'' if again else 'or '}name another folder")


class Spread:
    """An executor that plays in this process first, then in workers if objects can be sent."""

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes or os.cpu_count() or 1
        self._began: float | None = None

    def __repr__(self) -> str:
        return f"up to {self._processes} processes"

    def map(self, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """Run every job."""
        self._began = self._began or monotonic()
        waiting = list(jobs)
        while waiting and monotonic() - self._began < PATIENCE:
            yield work(waiting.pop(0))
        things, stuck = plugins.carried()
        size = min(self._processes, len(waiting))
        if size > 1 and not stuck & _needed(waiting):
            yield from Processes(size, plugins.adopt, things).map(work, waiting)
        else:
            yield from Inline().map(work, waiting)


def _needed(jobs: Iterable[Any]) -> set[tuple[Kind, str]]:
    """Return the names that a worker process needs: laws, substrates and every metric."""
    found: set[tuple[Kind, str]] = {("metric", name) for name in plugins.names("metric")}
    for cell, _ in jobs:
        found |= {("law", cell.law), ("substrate", cell.case.substrate)}
    return found


def _tasks(tasks: TaskLike | Sequence[TaskLike]) -> list[GivenTask]:
    listed: Any = tasks if isinstance(tasks, list) else [tasks]
    found: list[GivenTask] = []
    for task in listed:
        if isinstance(task, str) and re.search(r"[*?]", task):
            found += [find_task(each.name) for each in plan.tasks_of([task])]
        else:
            found.append(find_task(task))
    objects = {each.task.substrate: each.substrate for each in found if each.own}
    for each in found:
        one = objects.get(each.task.substrate, each.substrate)
        if one != each.substrate and (each.own or type(one) is not type(each.substrate)):
            raise ConfigError(f"two substrates are called {each.task.substrate!r}; rename one")
    return found


def _laws(laws: LawLike | Sequence[LawLike] | Mapping[str, LawLike]) -> dict[str, GivenLaw]:
    if isinstance(laws, Mapping):
        return {name: find_law(law) for name, law in laws.items()}
    found: dict[str, GivenLaw] = {}
    listed: Any = laws if isinstance(laws, list | tuple) else [laws]
    for law in listed:
        given = find_law(law)
        if given.name in found:
            raise ConfigError(
                f"two laws are called {given.name!r}; name them: laws={{'one': ..., 'other': ...}}"
            )
        found[given.name] = given
    return found


def _metrics(metrics: Sequence[MetricLike]) -> list[plugins.Metric]:
    """Return the metrics, with distinct names, since rows identify metrics only by name."""
    found: dict[str, plugins.Metric] = {}
    registered = plugins.names("metric")
    for each in map(find_metric, metrics):
        if each.name in registered and plugins.get_metric(each.name) != each:
            raise ConfigError(f"there is a metric {each.name!r} already; rename yours")
        if found.setdefault(each.name, each) != each:
            raise ConfigError(f"two metrics are called {each.name!r}; rename one")
    return list(found.values())


def _recipe(
    tasks: Sequence[GivenTask],
    laws: Mapping[str, GivenLaw],
    seeds: Iterable[int],
    n: int | Iterable[int],
    rounds: int | None,
    order: Order | None,
    engine: EngineName,
    shock: bool,
    worker: str,
    options: Mapping[str, Any],
) -> Recipe:
    """Build the recipe that the arguments of a sweep describe."""
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise ConfigError(f"seeds are several, such as range(10_000, 10_005), not {seeds!r}")
    if order is not None:
        among("order", order, Order)
    substrates = {each.task.substrate: each.substrate for each in tasks}
    mine = sort_options(
        options,
        {
            **{name: each.options.model_fields for name, each in substrates.items()},
            LAW: {option for law in laws.values() for option in law.options},
            WORKER: ("schedule", "cache", *worker_options(worker)) if worker else (),
            **{name: struct.__struct_fields__ for name, struct in SETTINGS.items()},
        },
        alike=substrates,
    )
    own = {name: checked(name, each.options, mine[name]) for name, each in substrates.items()}
    perturb, switch, defend = (
        checked(name, mirror(struct), mine[name]) for name, struct in SETTINGS.items()
    )
    sizes = n if isinstance(n, Iterable) and not isinstance(n, str) else [n]
    methods: dict[str, MethodSpec] = {}
    try:
        for label, law in laws.items():
            name = re.sub(r"[^A-Za-z0-9._+-]", "-", label).strip("-._+") or "law"
            settled: dict[str, Any] = {} if order is None else {"order": order}
            spec = MethodSpec(
                law=f"object:{label}" if law.own else law.name,
                options={k: v for k, v in mine[LAW].items() if k in law.options},
                engine=among("engine", engine, EngineName),
                switches=switch,
                perturbation=perturb,
                defence=defend,
                worker={"name": worker, **mine[WORKER]} if worker else {},
                label=label,
                **settled,
            )
            if name in methods:
                raise ConfigError(
                    f"{methods[name].label!r} and {label!r} are both written {name!r}; tell them "
                    "apart by letters and digits, laws={'one': ..., 'other': ...}"
                )
            methods[name] = plan.settled(spec)
        block = Block(
            methods=list(methods),
            tasks=[each.task.name for each in tasks],
            n=[count("n", each) for each in sizes],
            seeds=list(seeds),
            rounds=[] if rounds is None else [rounds],
            shock=shock,
            options={name: values for name, values in own.items() if values},
        )
        return Recipe(title="A sweep from Python", methods=methods, blocks=[block])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part != "")
        raise ConfigError(f"{where}: {first['msg']}") from None


def _objects(
    place: Path,
    tasks: Sequence[GivenTask],
    laws: Mapping[str, GivenLaw],
    metrics: Sequence[plugins.Metric],
    recipe: Recipe,
) -> dict[str, Any]:
    """Return a digest of every given object, with those already stored in the folder.

    Laws that a decorator registered here count as given objects; rows name the plug-in files of
    others. A folder is refused if other code of the same name has played or measured its rows. The
    metrics of this package are in every row.
    """
    worlds = [t for t in tasks if t.own or t.task.substrate not in BUILT_IN["substrate"]]
    now = {f"substrate {t.task.substrate}": _digest(t.substrate) for t in worlds}
    now |= {f"law {name}": _digest(law.factory) for name, law in laws.items() if law.own}
    here = {entry.name for entry in plugins.entries("law") if entry.origin == "decorator"}
    for spec in recipe.methods.values():
        if spec.law in here:
            now[f"law {spec.label}"] = _digest(laws[spec.label].make(**spec.options))
    own = [metric for metric in metrics if metric.name not in BUILT_IN["metric"]]
    measured = {f"metric {m.name}": _digest(m.compute) for m in own}
    path = place / OBJECTS
    known = read_result(path, "digests of objects") if path.exists() else {}
    fresh = not has_rows(place)
    for name, digest in {**now, **measured}.items():
        before = known.get(name, "" if name in measured and not fresh else digest)
        if before != digest and not fresh:
            raise ConfigError(f"{name} is not the one that {place} was played with; name another")
    return {**known, **now, **measured}


def _digest(thing: Any) -> str:
    """Return a digest of an object's code and plain attributes."""
    thing = thing.thing if isinstance(thing, Prebuilt) else thing
    code: Any = thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    try:
        text = inspect.getsource(code)
    except (OSError, TypeError):
        text = f"{code.__module__}.{code.__qualname__}"
    plain = {
        name: value
        for name, value in sorted(getattr(thing, "__dict__", {}).items())
        if isinstance(value, bool | int | float | str | None) and code is not thing
    }
    return hashlib.sha256(f"{text}{plain}".encode()).hexdigest()[:16]
