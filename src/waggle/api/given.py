"""Resolve tasks, laws, workers and metrics that are given by name, as a class or as an object.

A task is a name, a substrate, or a pair of a substrate and the name of one of its tasks. A law is a
name, a Python file that registers one law, the folder of a trained law, a class, or an object with
`decide`. A worker is a name, a callable in a file, or a callable. A metric is a name or a function
of one episode record.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, get_args

from waggle import plugins
from waggle.core.errors import ConfigError, suggest
from waggle.core.protocols import Law, Substrate
from waggle.core.record import EpisodeRecord
from waggle.core.worker import Schedule, Worker
from waggle.plugins import Metric, Task
from waggle.runtime.staff import Staff
from waggle.workers.desk import WorkerDesk
from waggle.workers.hire import hire, worker_options

TaskLike: TypeAlias = str | Substrate | type[Substrate] | tuple[Substrate | type[Substrate], str]
"""A task by name, or a custom substrate."""
LawLike: TypeAlias = str | Path | Law | Callable[..., Law]
"""A law by name, file or folder, a law class or factory, or a law."""
WorkerLike: TypeAlias = str | Worker
"""A private worker by name, or a callable; an empty name for none."""
MetricLike: TypeAlias = str | Metric | Callable[[EpisodeRecord], float | None]
"""A metric by name, or a function of an episode record."""


class GivenTask(NamedTuple):
    """A task with the substrate that opens its worlds."""

    task: Task
    substrate: Substrate
    own: bool
    """Whether the substrate was given as an object and has no registered name."""


@dataclass(frozen=True)
class Prebuilt:
    """A factory that returns a fixed object."""

    thing: Any

    def __call__(self) -> Any:
        """Return the object."""
        return self.thing


class GivenLaw(NamedTuple):
    """A law before it is created: its factory, and the options that the factory takes."""

    name: str
    factory: Callable[..., Law]
    options: Mapping[str, inspect.Parameter]
    own: bool
    """Whether it was given as an object or a folder and has no registered name."""

    def make(self, **options: Any) -> Law:
        """Create the law with these options."""
        return plugins.create_law(self.name, self.factory, options)


class GivenWorker(NamedTuple):
    """A private worker before it is hired."""

    make: Callable[..., Staff]
    options: tuple[str, ...]


def find_task(task: TaskLike) -> GivenTask:
    """Return a task, given by name or as a substrate.

    Raises:
        ConfigError: for an unknown name, an object that is no substrate, or an ambiguous task.
    """
    if isinstance(task, str):
        found = plugins.find_task(task)
        return GivenTask(found, plugins.get_substrate(found.substrate), False)
    thing, wanted = task if isinstance(task, tuple) else (task, None)
    substrate = thing() if inspect.isclass(thing) else thing
    if not isinstance(substrate, Substrate):
        raise ConfigError(
            f"{thing!r:.60} is no task; give a name of `waggle list tasks`, or a substrate with "
            "name, tasks, options and open()"
        )
    name = substrate.tasks[0] if wanted is None and len(substrate.tasks) == 1 else wanted
    if name not in substrate.tasks:
        listed = ", ".join(map(repr, substrate.tasks))
        raise ConfigError(f"{substrate.name} has the tasks {listed}; give (substrate, task)")
    return GivenTask(Task(substrate.name, name), substrate, True)


def find_law(law: LawLike) -> GivenLaw:
    """Return the factory of a law, with its options.

    Raises:
        ConfigError: for an unknown name, a folder without a law, or an object that cannot decide.
    """
    if isinstance(law, str | Path):
        return _named(str(law))
    if not inspect.isclass(law) and isinstance(law, Law):
        return GivenLaw(law.name, Prebuilt(law), {}, True)
    factory: Any = law
    if not callable(factory):
        raise ConfigError(
            f"{law!r:.60} is no law; give a name of `waggle list laws`, or an object with name and "
            "decide(requests)"
        )
    name = str(getattr(law, "name", None) or getattr(law, "__name__", "law"))
    return GivenLaw(name, factory, _named_ones(plugins.parameters(factory)), True)


def _named(name: str) -> GivenLaw:
    """Return a law by its name or, where no law has that name, by its file or folder."""
    if name.endswith(".py") and name not in plugins.names("law"):
        name = plugins.law_of_file(name)
    if name not in plugins.names("law") and Path(name).expanduser().is_dir():
        from waggle.laws.shipped import is_folder, of_folder

        if not is_folder(name):
            raise ConfigError(
                f"{name} holds no law; name the folder of one, such as RUN/seed-0/scd/law"
            )
        options = {k: p for k, p in plugins.parameters(of_folder).items() if k != "folder"}
        return GivenLaw(name, partial(of_folder, Path(name)), options, True)
    options = _named_ones(plugins.law_options(name))
    return GivenLaw(name, partial(plugins.get_law, name), options, False)


def _named_ones(parameters: Mapping[str, inspect.Parameter]) -> dict[str, inspect.Parameter]:
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {name: p for name, p in parameters.items() if p.kind not in variadic}


def find_worker(worker: WorkerLike) -> GivenWorker:
    """Return the factory of an episode's staff, with its options.

    Raises:
        ConfigError: for an unknown name or an object that is not callable.
    """
    if isinstance(worker, str):
        return GivenWorker(partial(hire, worker), ("schedule", "cache", *worker_options(worker)))
    if not callable(worker):
        raise ConfigError(f"{worker!r:.60} is no worker; give a name or a callable")
    name = getattr(worker, "__name__", type(worker).__name__)

    def make(schedule: Schedule = "full") -> Staff:
        return Staff(WorkerDesk(worker, {"name": name}), among("schedule", schedule, Schedule))

    return GivenWorker(make, ("schedule",))


def among(name: str, value: Any, choice: Any) -> Any:
    """Return the value if it is one of the words of a Literal type.

    Raises:
        ConfigError: if it is none of them.
    """
    words = list(get_args(choice))
    if value not in words:
        hint = suggest(str(value), words)
        raise ConfigError(f"{name} is one of {', '.join(words)}, not {value!r}{hint}")
    return value


def find_metric(metric: MetricLike) -> Metric:
    """Return a metric by name, or one made from a function and named after it.

    Raises:
        ConfigError: for an unknown name or an object that is not callable.
    """
    if isinstance(metric, str):
        return plugins.get_metric(metric)
    if isinstance(metric, Metric):
        return metric
    if not callable(metric):
        raise ConfigError(f"{metric!r:.60} is no metric; give a name or a function of a record")
    return Metric(getattr(metric, "__name__", "metric"), metric)
